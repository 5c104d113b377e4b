# SPDX-License-Identifier: Apache-2.0
"""Delay Ctrl-C while JAX traces a program.

JAX marks a cached function as running while it computes a value. If a signal handler raises an
exception at the wrong moment, the mark remains. Later calls of that function, which other programs
may share, then raise RecursionError.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def delayed() -> Iterator[None]:
    """Handle Ctrl-C at the end of the block, in the main thread. A second one is handled at once.

    Has no effect in other threads, where Python runs no signal handlers, and if the program ignores
    Ctrl-C or is ended by it.
    """
    handler = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or not callable(handler) or isinstance(handler, _Delay):
        yield
        return
    delay = _Delay(handler)
    signal.signal(signal.SIGINT, delay)
    try:
        yield
    finally:
        delay.end()


class _Delay:
    """A handler that notes the first signal, and lets the replaced handler handle the next one."""

    def __init__(self, replaced: Any) -> None:
        self._replaced = replaced
        self._noted = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._noted:
            self._noted = True
            return
        self._noted = False
        signal.signal(number, self._replaced)
        self._replaced(number, frame)

    def end(self) -> None:
        """Restore the replaced handler, and let it handle a signal that was noted."""
        current: object = signal.getsignal(signal.SIGINT)
        if current is self:
            signal.signal(signal.SIGINT, self._replaced)
        if self._noted:
            self._noted = False
            signal.raise_signal(signal.SIGINT)
