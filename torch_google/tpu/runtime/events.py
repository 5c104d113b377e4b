# SPDX-License-Identifier: Apache-2.0
"""What an event or a wait refers to: the values that existed when it was made."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from torch_google.tpu.runtime import errors


class Marker:
    """A set of values, some of which may still be on their way.

    `timing` stamps the moment at which the last of them is there.
    """

    def __init__(self, arrays: Sequence[Any], timing: bool) -> None:
        self._arrays = [array for array in arrays if _concerns(array)]
        self._reached: threading.Event | None = None
        self._time = time.perf_counter()
        if timing and self._arrays:
            self._reached = threading.Event()
            _watch(self)

    def ready(self) -> bool:
        """Whether all values are there."""
        self._arrays = [array for array in self._arrays if _concerns(array)]
        return all(array.is_ready() for array in self._arrays)

    def wait(self) -> None:
        """Block until all values are there; raises what their computation raised."""
        for array in self._arrays:
            errors.wait(array)
        self._arrays = []

    def elapsed(self, later: Marker) -> float:
        """Return the milliseconds from this to a later one; both are waited for."""
        return (later.time() - self.time()) * 1e3

    def time(self) -> float:
        """Return the moment, in seconds of time.perf_counter, at which all values were there."""
        if self._reached is not None:
            self._reached.wait()
        return self._time

    def stamp(self) -> None:
        """Wait, then note the time. Called by the thread that watches."""
        try:
            for array in tuple(self._arrays):
                array.block_until_ready()
        except Exception:  # noqa: BLE001 - wait() raises it, to whom it concerns
            pass
        self._time = time.perf_counter()
        assert self._reached is not None
        self._reached.set()


def mark(arrays: Sequence[Any], timing: bool) -> Marker:
    """Return a marker of these values."""
    return Marker(arrays, timing)


def _concerns(array: Any) -> bool:
    """Whether a wait for a value may block or raise: what has failed counts as ready for JAX."""
    if not array.is_ready():
        return True
    try:
        array.block_until_ready()
    except RuntimeError:  # wait() raises it
        return True
    return False


_watched: queue.SimpleQueue[Marker] = queue.SimpleQueue()
_watcher: list[threading.Thread] = []
_lock = threading.Lock()


def _watch(marker: Marker) -> None:
    with _lock:
        if not _watcher:
            thread = threading.Thread(target=_stamp_all, name="tpu-events", daemon=True)
            thread.start()
            _watcher.append(thread)
    _watched.put(marker)


def _stamp_all() -> None:
    while True:
        _watched.get().stamp()
