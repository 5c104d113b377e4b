# SPDX-License-Identifier: Apache-2.0
"""Compare the cost of torch_google.logging with that of Python's logging, for the same output."""

from __future__ import annotations

import contextlib
import logging as python_logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from absl import flags
from absl import logging as absl_logging

from benchmarks.google3.row import Row, Sizes, Work, clear
from torch_google import logging

STDERR, FILES = "stderr", "logs"

Log = Callable[..., object]


def rows(sizes: Sizes) -> list[Row]:
    """Return the comparisons, each of which logs `sizes.records` one-line records."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["google3"])

    def work(stream: Stream, log: Log, *, file: bool) -> Work:
        def say(directory: Path) -> None:
            with stream(directory, file=file):
                for number in range(sizes.records):
                    log("step %d: loss %f", number, 0.5)

        return say

    logger = python_logging.getLogger("benchmarks.google3").info
    return [
        Row(
            f"{sizes.records:,} records {where}, beside Python's logging",
            work(python_stream, logger, file=file),
            work(our_stream, log, file=file),
            most,
            clear,
        )
        for where, log, file, most in (
            ("on stderr", logging.info, False, 1.2),
            ("on stderr and in a file", logging.info, True, 1.2),
            ("of a logger of Python's, on stderr and in a file", logger, True, 1.2),
        )
    ]


class SameLine(python_logging.Formatter):
    """A formatter that makes Python's logging write Abseil's line format."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname).1s%(asctime)s %(thread)5d %(filename)s:%(lineno)d] %(message)s"
        )

    def formatTime(self, record: python_logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the record's time in Abseil's format, with microseconds."""
        clock = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        return f"{clock}.{int(record.created % 1 * 1e6):06}"


@contextlib.contextmanager
def python_stream(directory: Path, *, file: bool) -> Iterator[None]:
    """Make Python's logging write to standard error and, if `file` is true, also to a log file.

    Standard error is redirected to a file in `directory`.
    """
    with _stderr(directory):
        handlers: list[python_logging.Handler] = [python_logging.StreamHandler()]
        if file:
            (directory / FILES).mkdir(exist_ok=True)
            handlers.append(python_logging.FileHandler(directory / FILES / str(os.getpid())))
        for handler in handlers:
            handler.setFormatter(SameLine())
            python_logging.root.addHandler(handler)
        try:
            yield
        finally:
            for handler in handlers:
                python_logging.root.removeHandler(handler)
                handler.close()


@contextlib.contextmanager
def our_stream(directory: Path, *, file: bool) -> Iterator[None]:
    """Make torch_google.logging write to standard error and, if `file` is true, to a log file.

    Standard error is redirected to a file in `directory`.
    """
    with _stderr(directory) as stderr:
        handler = absl_logging.get_absl_handler()
        before = handler.python_handler.setStream(stderr)
        logging.setup(directory=str(directory / FILES) if file else "", native=False)
        try:
            yield
        finally:
            logging.shutdown()
            handler.python_handler.setStream(before)
            python_logging.root.removeHandler(handler)


Stream = Callable[..., contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _stderr(directory: Path) -> Iterator[object]:
    """Redirect sys.stderr to a line-buffered file, and disable the root logger's handlers."""
    root, verbosity = python_logging.root, absl_logging.get_verbosity()
    level, root.handlers[:], others = root.level, [], list(root.handlers)
    with open(directory / STDERR, "a", buffering=1) as file, contextlib.redirect_stderr(file):
        absl_logging.set_verbosity(absl_logging.INFO)
        root.setLevel(python_logging.INFO)
        try:
            yield file
        finally:
            absl_logging.set_verbosity(verbosity)
            root.setLevel(level)
            root.handlers[:] = others
