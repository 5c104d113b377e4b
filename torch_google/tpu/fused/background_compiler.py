# SPDX-License-Identifier: Apache-2.0
"""A background thread that compiles programs, newest first."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)


class BackgroundCompiler:
    """A daemon thread, started by the first task, that runs tasks in last-in, first-out order.

    The newest task is the most useful one, because the shapes of older programs may no longer be in
    use. At exit, the process drops all queued tasks, but waits for the current one, because XLA
    cannot be interrupted.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._queue: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, make: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Queue a task that passes the result of `make` to `done`, or None if `make` raises."""
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
        """Wait until the queue is empty and no task is running."""
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
    result = None
    try:
        result = make()
    except Exception as error:  # noqa: BLE001 - XLA raises any type, and no caller is waiting
        _warn(error)
    try:
        done(result)
    except Exception as error:  # noqa: BLE001 - the thread must survive for the next task
        _warn(error)


def _warn(error: Exception) -> None:
    # Do not use warnings.warn: a filter can turn the warning into an error, which would terminate
    # this thread.
    _log.warning(
        "tpu: a fused program was not compiled: %s: %s. Its operators run one by one from now on",
        type(error).__name__,
        str(error).strip().partition("\n")[0],
    )
