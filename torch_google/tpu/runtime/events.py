# SPDX-License-Identifier: Apache-2.0
"""Events and stream waits. Each covers all values that existed when it was created."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from torch_google.tpu.runtime import errors


class Marker:
    """A set of values, some of which may not be ready.

    If `timing` is set, the marker records the time at which the last value becomes ready.
    """

    def __init__(self, arrays: Sequence[Any], timing: bool) -> None:
        self._arrays = [array for array in arrays if _concerns(array)]
        self._timing = timing
        self._reached: threading.Event | None = None
        self._time = time.perf_counter()
        if timing and self._arrays:
            self._reached = threading.Event()
            _watch(self)

    def ready(self) -> bool:
        """Return whether all values are ready."""
        return all(array.is_ready() for array in self.pending())

    def pending(self) -> list[Any]:
        """Return the values that are not ready, or whose computation failed."""
        self._arrays = [array for array in self._arrays if _concerns(array)]
        return self._arrays

    def wait(self) -> None:
        """Wait until all values are ready. If a computation failed, raise its error."""
        for array in self._arrays:
            errors.wait(array)
        self._arrays = []

    def block(self, device: int, stream: int) -> None:
        """Make later waits for a stream also wait for these values."""
        with _lock:
            before = _awaited.get((device, stream), ())
            _awaited[device, stream] = [*(marker for marker in before if marker.pending()), self]

    def elapsed(self, later: Marker) -> float:
        """Return the milliseconds from this marker to a later one.

        Raises the same errors as torch if the markers lack `timing` or are not ready. Only torch
        v2.6 needs these checks here; later releases perform them before they call the backend.
        """
        if not (self._timing and later._timing):
            raise ValueError("tpu: both events must be created with argument 'enable_timing=True'")
        if not (self.ready() and later.ready()):
            raise RuntimeError("tpu: both events must be completed. Call synchronize() on them")
        return (later.time() - self.time()) * 1e3

    def time(self) -> float:
        """Return the time.perf_counter() at which the last value became ready."""
        if self._reached is not None:
            self._reached.wait()
        return self._time

    def stamp(self) -> None:
        """Wait for the values, then record the time. Only the watcher thread calls this method."""
        try:
            for array in tuple(self._arrays):
                array.block_until_ready()
        except Exception:  # noqa: BLE001 - wait() raises it to the user
            pass
        self._time = time.perf_counter()
        assert self._reached is not None
        self._reached.set()


def mark(arrays: Sequence[Any], timing: bool, device: int, stream: int) -> Marker:
    """Return a marker for `arrays` and for all values that a stream (-1: any stream) waits for.

    A failed value that a stream waits for is added to only one marker, so its error is raised once.
    """
    behind = []
    with _lock:
        for where, markers in tuple(_awaited.items()):
            if where == (device, stream) or (where[0] == device and stream == _ALL):
                behind += [array for marker in markers for array in marker.pending()]
                _awaited[where] = [marker for marker in markers if not marker.ready()]
                if not _awaited[where]:
                    del _awaited[where]
    return Marker([*arrays, *behind], timing)


def _concerns(array: Any) -> bool:
    """Return whether waiting for a value may block or raise an error.

    JAX reports failed values as ready, so is_ready() alone is not enough.
    """
    if not array.is_ready():
        return True
    try:
        array.block_until_ready()
    except RuntimeError:  # wait() will raise this error
        return True
    return False


# The stream index that stands for all streams.
_ALL = -1
# For each (device, stream), the markers that a later wait for the stream must also wait for.
_awaited: dict[tuple[int, int], list[Marker]] = {}
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
