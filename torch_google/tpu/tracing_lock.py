# SPDX-License-Identifier: Apache-2.0
"""Lets one thread at a time trace an operator with torch.fx, and hides the trace from others.

torch.fx has one state for the whole process. While it traces, it patches nn.Module and keeps the
patches in a global variable: if two threads traced at the same time, one would fail, and nn.Module
could stay patched. It also sets a flag that makes calls of compiled functions fail in all threads.
The traces that torch.compile makes do not take this lock.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from types import ModuleType

# A trace takes less than a second. A thread that has waited this long may itself be what the trace
# waits for, so it goes on, although torch.fx may then raise an error.
_SECONDS = 20.0


class _State:
    """The lock, and the thread that traces an operator, if any."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.thread: int | None = None


_state = _State()


def _forked() -> None:
    """Replace the lock in a child process, because no thread of the child can release it."""
    global _state
    _state = _State()


os.register_at_fork(after_in_child=_forked)


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Wait until no other thread traces an operator, for at most 20 seconds."""
    state = _state
    is_locked = state.lock.acquire(timeout=_SECONDS)
    before, state.thread = state.thread, threading.get_ident()
    try:
        yield
    finally:
        state.thread = before
        if is_locked:
            state.lock.release()


def hide_from_other_threads(symbolic_trace: ModuleType) -> None:
    """Make torch.fx's flag true only in the thread that traces an operator. Idempotent.

    `symbolic_trace` is the module torch.fx._symbolic_trace. Compiled functions read the flag
    through it, from the moment when they are decorated.
    """
    name = "is_fx_symbolic_tracing"
    if not hasattr(symbolic_trace, name):  # torch v2.6
        name = "is_fx_tracing"
    original: Callable[[], bool] = getattr(symbolic_trace, name)
    if getattr(original, "__module__", None) == __name__:
        return

    def is_tracing() -> bool:
        return original() and _state.thread in (None, threading.get_ident())

    setattr(symbolic_trace, name, is_tracing)
