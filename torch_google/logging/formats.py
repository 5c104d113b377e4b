# SPDX-License-Identifier: Apache-2.0
"""How a record looks: Abseil's line with rank and process in it, or one JSON object."""

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

# torch's logger of an artifact (guards, graph_code, ...) has this attribute.
_ARTIFACT = "artifact_name"
_INTERNAL = "torch._logging._internal"
# Who begins compilations. Where it was not imported there are none, which is much quicker to see.
_COMPILER = "torch._dynamo.convert_frame"
# The same environment, bytes and all, without a copy of each key and an exception for each one missing.
_ENVIRONMENT: Mapping[bytes, bytes] = vars(os.environ).get("_data", os.environb)
_LOGGERS = logging.root.manager.loggerDict
_LETTERS = {logging.DEBUG: "I", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E"}


class TextFormatter(absl_logging.PythonFormatter):
    """Abseil's prefix, then where it is from if that is not the only process, then the message.

    `W0102 03:04:05.678901 140 train.py:12] [rank 3, worker-1] [0/0] [__guards] text`: tools that parse
    Abseil's lines read these too. Every record of a program passes here, so the common case asks for
    little: benchmarks/google3 has the figures.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as lines; only the first has a prefix."""
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
    """One object on one line. Keys that have no value for a record are not in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time in UTC, severity, place, process, message."""
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
    """Return the message. One that cannot be formatted has its format, its arguments and the error.

    Python would print a traceback in its place, which is no record and in no file.
    """
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - of whatever kind: the arguments are the program's
        return (
            f"{_safe(str, record.msg)} (arguments {_safe(repr, record.args)}: "
            f"{type(error).__name__}: {_safe(str, error)})"
        )


def artifact_of(record: logging.LogRecord) -> str | None:
    """Return which of torch's artifacts a record is, if it is one."""
    return getattr(_LOGGERS.get(record.name), _ARTIFACT, None)


def artifact_text(record: logging.LogRecord, artifact: str) -> str | None:
    """Return the text in the artifact's own format, or None if it has none or cannot be formatted."""
    registry = getattr(sys.modules.get(_INTERNAL), "log_registry", None)
    formatter = registry.artifact_log_formatters.get(artifact) if registry else None
    if formatter is None:
        return None
    try:
        return str(formatter.format(record))
    except Exception:  # noqa: BLE001 - of whatever kind: `message_of` then says which
        return None


def compilation_of() -> str | None:
    """Return the id of the compilation that this thread is in, like `0/0`; None outside of one."""
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    found = context.current_trace_id() if context else None
    return None if found is None else str(found)


def rank() -> int | None:
    """Return the rank of this process: of the process group, else of its launcher's environment."""
    distributed = sys.modules.get("torch.distributed")
    # A torch that was built without it has the module, and nothing in it.
    is_initialized = getattr(distributed, "is_initialized", None)
    if is_initialized is not None and is_initialized():
        return int(distributed.get_rank())  # type: ignore[union-attr]
    text = _ENVIRONMENT.get(b"RANK", b"")
    return int(text) if text.isdigit() else None


def origin_text(record: logging.LogRecord) -> str:
    """Return `rank 3, worker-1 77`, or what of it there is: nothing where there is one process only."""
    found = rank()
    if multiprocessing.parent_process() is None:
        return "" if found is None else f"rank {found}"
    process = process_text(record)
    return process if found is None else f"rank {found}, {process}"


def process_text(record: logging.LogRecord) -> str:
    """Return the name of a process that another one started; nothing for the main one."""
    if multiprocessing.parent_process() is None:
        return ""
    return f"{record.processName} {record.process}"


def _with_traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the message with its exception and stack, as logging's own formatter lays them out."""
    shown = logging.makeLogRecord({**vars(record), "msg": message_of(record), "args": None})
    text = logging.Formatter.format(formatter, shown)
    record.message, record.exc_text = shown.message, shown.exc_text
    return text


def _safe(show: Callable[[Any], str], value: Any) -> str:
    """Return a text of a value, whatever its own __str__ or __repr__ does."""
    try:
        return show(value)
    except Exception:  # noqa: BLE001 - of whatever kind
        return f"<{type(value).__name__} that cannot be shown>"


def _prefix(record: logging.LogRecord) -> str:
    """Return Abseil's prefix, or nothing where its flag --noshowprefixforinfo says so."""
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
    """Return the second of a time, and it as `0102 03:04:05`; records come in crowds, so it is kept."""
    global _last
    second = int(created)
    _last = second, time.strftime("%m%d %H:%M:%S", time.localtime(second))
    return _last


_last = (-1, "")


def _utc(created: float) -> str:
    moment = datetime.datetime.fromtimestamp(created, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
