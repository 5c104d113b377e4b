# SPDX-License-Identifier: Apache-2.0
"""Format log records in Abseil's format, with the rank and the process, or as JSON objects."""

from __future__ import annotations

import datetime
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from absl import flags
from absl import logging as absl_logging

_SHOW_PREFIX = flags.FLAGS["showprefixforinfo"]

# torch sets this attribute on the loggers of its artifacts (guards, graph_code, ...).
_ARTIFACT = "artifact_name"
_INTERNAL = "torch._logging._internal"
# The module that starts compilations. Before it is imported, no compilation can be running.
_COMPILER = "torch._dynamo.convert_frame"
# The dict of bytes inside os.environ. Unlike os.environ, it does not encode the key on each lookup
# or raise an exception for a missing key.
_ENVIRONMENT: Mapping[bytes, bytes] = vars(os.environ).get("_data", os.environb)
_LOGGERS = logging.root.manager.loggerDict
_LETTERS = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}


class TextFormatter(absl_logging.PythonFormatter):
    """A formatter that adds Abseil's prefix and, if there are several processes, the origin.

    The origin is the rank and the process's name and id. For example:
    `W0102 03:04:05.678901 140 train.py:12] [rank 3, worker-1 77] [0/0] [__guards] text`.
    Tools that parse Abseil's lines can parse these lines as well. Every record passes through
    `format`, so the common case must be fast; benchmarks/google3 has the timings.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text. Only the first line has the prefix."""
        artifact = artifact_of(record)
        text = artifact_text(record, artifact) if artifact else None
        if text is None:
            if record.exc_info or record.exc_text or record.stack_info:
                text = _with_traceback(self, record)
            else:
                text = record.message = message_of(record)
        if artifact:
            text = f"[__{artifact}] {text}"
        if _COMPILER in sys.modules and (compilation := compilation_of()):
            text = f"[{compilation}] {text}"
        if origin := origin_text(record):
            text = f"[{origin}] {text}"
        return _prefix(record) + text


class JsonFormatter(logging.Formatter):
    """A formatter that writes each record as a JSON object on one line, without empty fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time in UTC, severity, source location, process, message."""
        artifact = artifact_of(record)
        text = artifact_text(record, artifact) if artifact else None
        fields: dict[str, Any] = {
            "time": _utc(record.created),
            "severity": record.levelname,
            "message": message_of(record) if text is None else text,
            "logger": record.name,
            "file": record.pathname,
            "line": record.lineno,
            "pid": record.process,
            "thread": record.threadName,
            "process": process_text(record) or None,
            "rank": rank(),
            "artifact": artifact,
            "compilation": compilation_of() if _COMPILER in sys.modules else None,
            "exception": self.formatException(record.exc_info) if record.exc_info else None,
            "stack": record.stack_info,
        }
        return json.dumps(
            {key: value for key, value in fields.items() if value is not None},
            default=partial(_safe, repr),
        )


def message_of(record: logging.LogRecord) -> str:
    """Return the record's message or, if formatting fails, its format string, arguments and error.

    Python's handlers would print a traceback instead and drop the record.
    """
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - the program's arguments can raise anything
        return (
            f"{_safe(str, record.msg)} (arguments {_safe(repr, record.args)}: "
            f"{type(error).__name__}: {_safe(str, error)})"
        )


def artifact_of(record: logging.LogRecord) -> str | None:
    """Return the name of the record's torch artifact, or None if it belongs to none."""
    return getattr(_LOGGERS.get(record.name), _ARTIFACT, None)


def artifact_text(record: logging.LogRecord, artifact: str) -> str | None:
    """Return the record in its artifact's own format.

    Return None if the artifact has no formatter, or if its formatter raises an exception.
    """
    registry = getattr(sys.modules.get(_INTERNAL), "log_registry", None)
    formatter = registry.artifact_log_formatters.get(artifact) if registry else None
    if formatter is None:
        return None
    try:
        return str(formatter.format(record))
    except Exception:  # noqa: BLE001 - can be any error; `message_of` then reports it
        return None


def compilation_of() -> str | None:
    """Return the id of this thread's current compilation, such as `0/0`, or None outside one."""
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    trace_id = context.current_trace_id() if context else None
    return None if trace_id is None else str(trace_id)


def rank() -> int | None:
    """Return this process's rank from the process group or the environment; None if unknown."""
    distributed = sys.modules.get("torch.distributed")
    # If torch was built without distributed support, torch.distributed lacks `is_initialized`.
    is_initialized = getattr(distributed, "is_initialized", None)
    if is_initialized is not None and is_initialized():
        return int(distributed.get_rank())  # type: ignore[union-attr]
    text = _ENVIRONMENT.get(b"RANK", b"")
    return int(text) if text.isdigit() else None


def origin_text(record: logging.LogRecord) -> str:
    """Return the rank and the process, such as `rank 3, worker-1 77`.

    Omit the rank if it is unknown, and the process if it is the main process. If that omits both,
    return "".
    """
    own_rank = rank()
    if multiprocessing.parent_process() is None:
        return "" if own_rank is None else f"rank {own_rank}"
    process = process_text(record)
    return process if own_rank is None else f"rank {own_rank}, {process}"


def process_text(record: logging.LogRecord) -> str:
    """Return the name and id of the process, or "" in the main process."""
    if multiprocessing.parent_process() is None:
        return ""
    return f"{record.processName} {record.process}"


def _with_traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the message, exception and stack, in the layout that logging.Formatter uses."""
    shown = logging.makeLogRecord({**vars(record), "msg": message_of(record), "args": None})
    text = logging.Formatter.format(formatter, shown)
    record.message, record.exc_text = shown.message, shown.exc_text
    return text


def _safe(show: Callable[[Any], str], value: Any) -> str:
    """Return the value as text, even if its __str__ or __repr__ raises."""
    try:
        return show(value)
    except Exception:  # noqa: BLE001 - the value's methods can raise anything
        return f"<{type(value).__name__} that cannot be shown>"


def _prefix(record: logging.LogRecord) -> str:
    """Return Abseil's prefix, or an empty string if --noshowprefixforinfo suppresses it."""
    letter = _LETTERS.get(record.levelno)
    if letter is None:
        return str(absl_logging.get_absl_log_prefix(record))
    if (
        record.levelno == logging.INFO
        and not _SHOW_PREFIX.value
        and absl_logging.get_verbosity() == absl_logging.INFO
    ):
        return ""
    second, clock = _last
    if not 0 <= (fraction := record.created - second) < 1:
        second, clock = _keep(record.created)
        fraction = record.created - second
    return "%s%s.%06d %5d %s:%d] " % (  # noqa: UP031 - much quicker than an f-string with widths
        letter,
        clock,
        fraction * 1e6,
        threading.get_ident(),
        record.filename,
        record.lineno,
    )


def _keep(created: float) -> tuple[int, str]:
    """Return a time in whole seconds, and its text, such as `0102 03:04:05`.

    Cache both, because successive records often share them.
    """
    global _last
    second = int(created)
    _last = second, time.strftime("%m%d %H:%M:%S", time.localtime(second))
    return _last


_last = (-1, "")


def _utc(created: float) -> str:
    moment = datetime.datetime.fromtimestamp(created, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
