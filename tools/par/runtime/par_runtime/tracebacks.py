# SPDX-License-Identifier: Apache-2.0
"""Tracebacks with source lines: the interpreter's own printer only looks for files on disk."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any


def show(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """Takes the place of sys.__excepthook__ in a packed program."""
    if sys.stderr is not None:
        traceback.print_exception(kind, value, trace)


def show_in_thread(arguments: Any) -> None:
    """Takes the place of threading.__excepthook__."""
    if arguments.exc_type is SystemExit or sys.stderr is None:
        return
    name = arguments.thread.name if arguments.thread is not None else "unknown"
    print(f"Exception in thread {name}:", file=sys.stderr, flush=True)
    traceback.print_exception(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)
