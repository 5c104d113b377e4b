# SPDX-License-Identifier: Apache-2.0
"""Set up the log stream: its sources, handlers and format. Only main functions should do this."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TextIO

from absl import logging as absl_logging

from torch_google.logging import abseil
from torch_google.logging.formats import JsonFormatter, TextFormatter
from torch_google.logging.log_files import LogFile
from torch_google.logging.loggers import adopt_all, release_all
from torch_google.logging.native import Relay
from torch_google.logging.options import Options, options

WARNINGS_LOGGER = "py.warnings"  # the logger that logging.captureWarnings uses


@dataclass
class _Stream:
    """The state that `setup` changed and `shutdown` restores."""

    formatter: logging.Formatter | None
    show: object
    file: LogFile | None = None
    relay: Relay | None = None


_stream: _Stream | None = None


def setup(
    *,
    directory: str | None = None,
    json: bool | None = None,
    native: bool | None = None,
    program: str | None = None,
) -> None:
    """Make Abseil's log the only log of this process. Call it in main, after parsing flags.

    This adds Abseil's handler to the root logger. Records from torch, c10d, elastic, warnings and,
    with `native`, C++ code all go to this handler, with one format and one verbosity. torch may be
    imported before or after the call. Calling `setup` again replaces the earlier settings.

    Args:
      directory: also write to files in this directory, a torch_google.gfile path; "" for none.
      json: write each record as one JSON object.
      native: also log C++ messages; the default is true in a PAR.
      program: the beginning of the log files' names; the default is the program's name.

    If an argument is None, its flag applies: see `define_flags` and, for `directory`, Abseil's
    `--log_dir`. If the directory cannot be created, nothing is set up. If it was passed as an
    argument, `setup` raises an OSError naming it, or ValueError for an unknown scheme. If a flag
    set it, the program exits with a one-line message and status 1 (SystemExit).
    """
    global _stream
    chosen = options(directory, json, native)
    file = _open_file(chosen, program or _program())
    shutdown()
    handler = absl_logging.get_absl_handler()
    formatter: logging.Formatter = JsonFormatter() if chosen.json else TextFormatter()
    _stream = _Stream(handler.python_handler.formatter, warnings.showwarning, file)
    absl_logging.use_absl_handler()
    handler.setFormatter(formatter)
    if file is not None:
        file.setFormatter(formatter)
        logging.root.addHandler(file)
    abseil.follow()
    _tell_native_code()
    adopt_all()
    warnings.showwarning = _show_warning
    if chosen.native:
        terminal = sys.stderr
        _stream.relay = Relay(_in_relay(file, terminal), file.close if file else lambda: None)
        _follow_stderr(terminal)
        abseil.tag_messages(True)


def shutdown() -> None:
    """Flush the log and undo `setup`. Also called at process exit.

    If a step fails, the remaining steps still run, and then the first error is raised.
    """
    global _stream
    stream, _stream = _stream, None
    if stream is None:
        return
    steps: list[Callable[[], object]] = [abseil.unfollow]
    if stream.relay is not None:
        steps += [
            partial(abseil.tag_messages, False),
            stream.relay.stop,
            partial(_follow_stderr, sys.stderr),
        ]
    if stream.file is not None:
        steps += [partial(logging.root.removeHandler, stream.file), stream.file.close]
    handler = absl_logging.get_absl_handler()
    steps += [
        partial(_show_warnings_by, stream.show),
        release_all,
        handler.flush,
        partial(handler.setFormatter, stream.formatter),
    ]
    errors: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - after any error, the next steps still run
            errors.append(error)
    if errors:
        raise errors[0]


atexit.register(shutdown)


def _open_file(chosen: Options, program: str) -> LogFile | None:
    """Open the log file, if the options set a directory. Exit if a flag set an invalid one."""
    if not chosen.directory:
        return None
    try:
        return LogFile(chosen.directory, program)
    except (OSError, ValueError) as error:
        if not chosen.directory_flag:
            raise
        sys.exit(
            f"FATAL Flags parsing error: --{chosen.directory_flag}={chosen.directory}: no log can be "
            f"written there: {error}; name a directory that exists or can be created"
        )


def _in_relay(file: LogFile | None, terminal: TextIO | None):  # type: ignore[no-untyped-def]
    """Return the function that the relay process calls for each C++ record."""
    following = False

    def handle(record: logging.LogRecord) -> None:
        nonlocal following
        if not following:
            _follow_stderr(terminal)
            if file is not None:
                file.follow()
            following = True
        for handler in (absl_logging.get_absl_handler(), file):
            if handler is not None:
                handler.handle(record)

    return handle


def _follow_stderr(before: TextIO | None) -> None:
    """Point Abseil's handler at the current sys.stderr if it still writes to `before`.

    Otherwise the handler would write FATAL records to both streams.
    """
    handler = absl_logging.get_absl_handler().python_handler
    if handler.stream is before:
        handler.setStream(sys.stderr)


def _tell_native_code() -> None:
    """Make the stream's verbosity the initial level of C++ code and of torch.distributed.elastic.

    Both read their level from an environment variable, once. A variable that is already set is not
    changed.
    """
    verbosity = absl_logging.get_verbosity()
    os.environ.setdefault(abseil.LEVEL_VARIABLE, abseil.severity_name(verbosity))
    level = absl_logging.converter.absl_to_standard(verbosity)
    os.environ.setdefault("LOGLEVEL", logging.getLevelName(max(level, logging.DEBUG)))


def _show_warnings_by(show: object) -> None:
    if warnings.showwarning is _show_warning:
        warnings.showwarning = show  # type: ignore[assignment]


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning with its source location or, if `file` is given, write it to that file."""
    if file is not None:
        text = warnings.formatwarning(message, category, filename, lineno, line)
        file.write(text)
        return
    logger = logging.getLogger(WARNINGS_LOGGER)
    if logger.isEnabledFor(logging.WARNING):
        record = logger.makeRecord(
            logger.name,
            logging.WARNING,
            filename,
            lineno,
            "%s: %s",
            (category.__name__, message),
            None,
        )
        logger.handle(record)


def _program() -> str:
    name = sys.argv[0] if sys.argv else ""
    return os.path.splitext(os.path.basename(name))[0] or "python"
