# SPDX-License-Identifier: Apache-2.0
"""The location and statistics of this process's compile cache. This module does not load JAX."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass, field

from torch_google.tpu.cache.directory import Directory
from torch_google.tpu.cache.remote import Remote

_VARIABLE = "TORCH_TPU_COMPILE_CACHE"
_LOCAL_SCHEMES = ("file://", "local://")
# The number of consecutive failed reads after which the cache is no longer read.
_PATIENCE = 3


@dataclass
class CacheStatistics:
    """Counts since the process started or since the last reset.

    `rejected` counts unusable entries. `unstorable` counts programs that JAX cannot serialize or
    that exceed the size limit. `bytes` counts the bytes read and written.
    """

    hits: int = 0
    misses: int = 0
    stored: int = 0
    rejected: int = 0
    unstorable: int = 0
    bytes: int = 0


@dataclass
class _CacheState:
    store: Directory | Remote | None = None
    chosen: bool = False  # whether a call or the environment has set the location
    writable: bool = True
    unread: int = 0  # the number of failed reads in a row
    warned: bool = False
    statistics: CacheStatistics = field(default_factory=CacheStatistics)
    lock: threading.Lock = field(default_factory=threading.Lock)


_state = _CacheState()


def set_compile_cache(path: str | os.PathLike[str] | None, *, max_bytes: int | None = None) -> None:
    """Store compiled programs in a directory or under a URL. None disables the cache.

    If the directory exceeds `max_bytes`, the least recently used entries are evicted; under a URL,
    the size is not limited. Raises ValueError for a limit below 1, for a value that is not a path,
    and for a URL that no filesystem can open.
    """
    if max_bytes is not None and max_bytes < 1:
        raise ValueError(
            f"tpu: compile cache: max_bytes={max_bytes}; use a number above 0, or None"
        )
    store = None if path is None else _place(os.fspath(path), max_bytes)
    with _state.lock:
        _state.store, _state.chosen = store, True
        _state.writable, _state.unread, _state.warned = True, 0, False


def get_compile_cache() -> str | None:
    """Return the compile cache's directory or URL, or None if the cache is disabled."""
    store = current()
    return None if store is None else str(store)


def statistics() -> CacheStatistics:
    """Return the counters themselves, not a copy, because callers increment them."""
    return _state.statistics


def reset_statistics() -> None:
    """Reset the counts to zero."""
    _state.statistics = CacheStatistics()


def current() -> Directory | Remote | None:
    """Return the store of entries, or None if the cache is disabled.

    If no location has been set, the first call reads it from TORCH_TPU_COMPILE_CACHE.
    """
    if not _state.chosen:
        path = os.environ.get(_VARIABLE)
        store = None
        try:
            store = _place(path, None) if path else None
        except ValueError as error:
            warn(f"{_VARIABLE}: {error}")
        with _state.lock:
            if not _state.chosen:
                _state.store, _state.chosen = store, True
    return _state.store


def readable() -> bool:
    """Return whether to read entries: False after repeated failures, because retries take time."""
    return _state.unread < _PATIENCE


def note_read(*, failed: bool) -> None:
    """Record whether a read failed or succeeded."""
    _state.unread = _state.unread + 1 if failed else 0


def writable() -> bool:
    """Return whether to write entries: False after the first failed write."""
    return _state.writable


def stop_writing() -> None:
    """Stop writing entries until a new location is set."""
    _state.writable = False


def _place(path: str, max_bytes: int | None) -> Directory | Remote:
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is not a path. Name a directory or a URL, or use None")
    for scheme in _LOCAL_SCHEMES:  # these paths are local, so their owner and mode are checked
        if path.lower().startswith(scheme):
            return Directory(path[len(scheme) :], max_bytes)
    return Remote(path) if "://" in path else Directory(path, max_bytes)


def warn(message: str) -> None:
    """Warn once per process, because a directory may contain thousands of bad entries."""
    with _state.lock:
        if _state.warned:
            return
        _state.warned = True
    warnings.warn(f"tpu: compile cache: {message}", stacklevel=3)
