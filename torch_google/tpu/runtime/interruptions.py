# SPDX-License-Identifier: Apache-2.0
"""Delay Ctrl-C while JAX traces a program, or while Python code stores several new values.

JAX marks a cached function as running while it computes a value. If a signal handler raises an
exception at the wrong moment, the mark remains. Later calls of that function, which other programs
may share, then raise RecursionError.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def delayed() -> Iterator[None]:
    """Handle Ctrl-C at the end of the block, in the main thread. A second one ends the delay.

    Has no effect in other threads, where Python runs no signal handlers, and if the program ignores
    Ctrl-C or is ended by it.
    """
    handler = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    is_delayed = isinstance(handler, _Delay) and handler.is_active
    if not in_main_thread or not callable(handler) or is_delayed:
        yield
        return
    delay = _Delay(handler)
    try:
        signal.signal(signal.SIGINT, delay)
        yield
    finally:
        delay.end()


class _Delay:
    """A handler that notes the first signal. At the second, the replaced handler handles both.

    After the block, it passes all signals to the replaced handler. It may still be installed then,
    because code in the block can save it as the previous handler, and install it again later.
    """

    def __init__(self, replaced: Any) -> None:
        self.is_active = True
        self._replaced = replaced
        self._is_noted = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.is_active:
            self._replaced(number, frame)
        elif not self._is_noted:
            self._is_noted = True
        else:
            self.end(frame)
            _handle(frame)

    def end(self, frame: FrameType | None = None) -> None:
        """Restore the replaced handler, and let it handle a signal that was noted."""
        self.is_active = False
        current: object = signal.getsignal(signal.SIGINT)
        if current is self:
            signal.signal(signal.SIGINT, self._replaced)
        if self._is_noted:
            self._is_noted = False
            _handle(frame or sys._getframe())


def _handle(frame: FrameType | None) -> None:
    """Let the current handler handle a signal.

    raise_signal() would also report the signal to signal.set_wakeup_fd() again. An event loop would
    then see two signals.
    """
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        signal.raise_signal(signal.SIGINT)
