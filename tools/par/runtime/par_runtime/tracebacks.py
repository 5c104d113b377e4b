# SPDX-License-Identifier: Apache-2.0
"""Print tracebacks with the source lines of packed modules, which the interpreter cannot read."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any

_IMPORTER = ("<frozen _par_boot>", "<frozen _par_importer>")


def show(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught exception as Python does for a program on disk. Replaces sys.excepthook.

    The traceback omits the importer's frames.
    """
    if sys.stderr is None:
        return
    report = traceback.TracebackException(kind, value, trace)
    _leave_out_importer(report)
    print("".join(report.format()), end="", file=sys.stderr)


def show_in_thread(arguments: Any) -> None:
    """Print a thread's uncaught exception. Replaces threading.excepthook."""
    if arguments.exc_type is SystemExit or sys.stderr is None:
        return
    name = arguments.thread.name if arguments.thread is not None else "unknown"
    print(f"Exception in thread {name}:", file=sys.stderr, flush=True)
    show(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)


def _leave_out_importer(report: traceback.TracebackException | None) -> None:
    while report is not None:
        report.stack[:] = [frame for frame in report.stack if frame.filename not in _IMPORTER]
        for inner in report.exceptions or ():
            _leave_out_importer(inner)
        _leave_out_importer(report.__context__)
        report = report.__cause__
