# SPDX-License-Identifier: Apache-2.0
"""Work for a thread in the background, the most wanted first."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)


class BackgroundCompiler:
    """A daemon thread that compiles, once there is something to compile.

    The newest work is done first: a program's shape has often changed for good by the time that it
    is compiled. At exit, what has begun is waited for, as XLA cannot be interrupted; the rest is
    dropped.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._queue: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, make: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Have `make` called, and `done` with its result: None, with a warning, if it raised."""
        with self._changed:
            if self._closed:
                return
            self._queue.append((make, done))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self._close)
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all is done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue and not self._busy)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                make, done = self._queue.pop()
                self._busy = True
            try:
                _run(make, done)
            finally:
                del make, done
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _close(self) -> None:
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()


def _run(make: Callable[[], Any], done: Callable[[Any], None]) -> None:
    made = None
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 - XLA raises of any kind, and nobody waits for it
        _warn(error)
    try:
        done(made)
    except Exception as error:  # noqa: BLE001 - who comes next waits for this thread
        _warn(error)


def _warn(error: Exception) -> None:
    # Not a warning of Python's, which may be an error, which would end this thread.
    _log.warning(
        "tpu: a fused program was not compiled: %s: %s. Its operators run one by one from now on",
        type(error).__name__,
        str(error).strip().partition("\n")[0],
    )
