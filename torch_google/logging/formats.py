# SPDX-License-Identifier: Apache-2.0
"""How a record looks: Abseil's line with rank and process in it, or one JSON object."""

from __future__ import annotations

import datetime
import json
import logging
import multiprocessing
import os
import sys
from typing import Any

from absl import flags
from absl import logging as absl_logging

FLAGS = flags.FLAGS

# torch's logger of an artifact (guards, graph_code, ...) has this attribute.
_ARTIFACT = "artifact_name"
_INTERNAL = "torch._logging._internal"


class TextFormatter(absl_logging.PythonFormatter):
    """Abseil's prefix, then where it is from if that is not the only process, then the message.

    `W0102 03:04:05.678901 140 train.py:12] [rank 3, worker-1] [0/0] [__guards] text`: tools that parse
    Abseil's lines read these too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as lines; only the first has a prefix."""
        artifact = artifact_of(record)
        text = artifact_text(record, artifact) if artifact else None
        if text is None:
            text = logging.Formatter.format(self, record)
        origin = [part for part in (rank_text(), process_text(record)) if part]
        tags = [f"[{', '.join(origin)}] "] if origin else []
        compilation = compilation_of()
        tags += [f"[{compilation}] "] if compilation else []
        tags += [f"[__{artifact}] "] if artifact else []
        return _prefix(record) + "".join(tags) + text


class JsonFormatter(logging.Formatter):
    """One object on one line. Keys that have no value for a record are not in it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time in UTC, severity, place, process, message."""
        artifact = artifact_of(record)
        text = artifact_text(record, artifact) if artifact else None
        fields: dict[str, Any] = {
            "time": _utc(record.created),
            "severity": record.levelname,
            "message": record.getMessage() if text is None else text,
            "logger": record.name,
            "file": record.pathname,
            "line": record.lineno,
            "pid": record.process,
            "thread": record.threadName,
            "process": process_text(record) or None,
            "rank": rank(),
            "artifact": artifact,
            "compilation": compilation_of(),
            "exception": self.formatException(record.exc_info) if record.exc_info else None,
            "stack": record.stack_info,
        }
        return json.dumps(
            {key: value for key, value in fields.items() if value is not None}, default=repr
        )


def artifact_of(record: logging.LogRecord) -> str | None:
    """Return which of torch's artifacts a record is, if it is one."""
    logger = logging.root.manager.loggerDict.get(record.name)
    return getattr(logger, _ARTIFACT, None)


def artifact_text(record: logging.LogRecord, artifact: str) -> str | None:
    """Return the text in the artifact's own format, or None where it has none of its own."""
    registry = getattr(sys.modules.get(_INTERNAL), "log_registry", None)
    formatter = registry.artifact_log_formatters.get(artifact) if registry else None
    return None if formatter is None else str(formatter.format(record))


def compilation_of() -> str | None:
    """Return the id of the compilation that this thread is in, like `0/0`; None outside of one."""
    context = getattr(sys.modules.get("torch._guards"), "CompileContext", None)
    found = context.current_trace_id() if context else None
    return None if found is None else str(found)


def rank() -> int | None:
    """Return the rank of this process: of the process group, else of its launcher's environment."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    text = os.environ.get("RANK", "")
    return int(text) if text.isdecimal() else None


def rank_text() -> str:
    """Return `rank 3`, or nothing where there is one process only."""
    found = rank()
    return "" if found is None else f"rank {found}"


def process_text(record: logging.LogRecord) -> str:
    """Return the name of a process that another one started; nothing for the main one."""
    if multiprocessing.parent_process() is None:
        return ""
    return f"{record.processName} {record.process}"


def _prefix(record: logging.LogRecord) -> str:
    """Return Abseil's prefix, or nothing where its flag --noshowprefixforinfo says so."""
    if (
        record.levelno == logging.INFO
        and not FLAGS["showprefixforinfo"].value
        and absl_logging.get_verbosity() == absl_logging.INFO
    ):
        return ""
    return absl_logging.get_absl_log_prefix(record)


def _utc(created: float) -> str:
    moment = datetime.datetime.fromtimestamp(created, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
