# SPDX-License-Identifier: Apache-2.0
"""Where the compile cache of this process is, and what it has done. Loads no JAX."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass, field

from torch_google.tpu.cache.directory import Directory
from torch_google.tpu.cache.remote import Remote

_VARIABLE = "TORCH_TPU_COMPILE_CACHE"
_LOCAL_SCHEMES = ("file://", "local://")
# After so many failures in a row nothing is read any more.
_PATIENCE = 3


@dataclass
class CacheStatistics:
    """Counts since the start or the last reset; `bytes` were read or written.

    `rejected` are entries that could not be used, `unstorable` programs that JAX cannot write, or that
    are larger than the bound.
    """

    hits: int = 0
    misses: int = 0
    stored: int = 0
    rejected: int = 0
    unstorable: int = 0
    bytes: int = 0


@dataclass
class _CacheState:
    place: Directory | Remote | None = None
    chosen: bool = False  # by a call; the variable is looked at once if not
    writable: bool = True
    unread: int = 0  # reads that have failed, one after another
    warned: bool = False
    statistics: CacheStatistics = field(default_factory=CacheStatistics)
    lock: threading.Lock = field(default_factory=threading.Lock)


_state = _CacheState()


def set_compile_cache(path: str | os.PathLike[str] | None, *, max_bytes: int | None = None) -> None:
    """Keep compiled programs in a directory, or below a URL; None keeps none.

    Above `max_bytes` the entries that were used least lately are removed; a URL has no such bound.
    Raises ValueError for a bound below 1, for what is no path, and for a URL that nothing opens.
    """
    if max_bytes is not None and max_bytes < 1:
        raise ValueError(
            f"tpu: compile cache: max_bytes={max_bytes}; use a number above 0, or None"
        )
    place = None if path is None else _place(os.fspath(path), max_bytes)
    with _state.lock:
        _state.place, _state.chosen = place, True
        _state.writable, _state.unread, _state.warned = True, 0, False


def get_compile_cache() -> str | None:
    """Return the directory or URL of the compile cache, or None."""
    place = current()
    return None if place is None else str(place)


def statistics() -> CacheStatistics:
    """Return the counts, which go on: whoever counts does it here."""
    return _state.statistics


def reset_statistics() -> None:
    """Count from zero again."""
    _state.statistics = CacheStatistics()


def current() -> Directory | Remote | None:
    """Return where entries are, or None. The variable is looked at once."""
    if not _state.chosen:
        path = os.environ.get(_VARIABLE)
        place = None
        try:
            place = _place(path, None) if path else None
        except ValueError as error:
            warn(f"{_VARIABLE}: {error}")
        with _state.lock:
            if not _state.chosen:
                _state.place, _state.chosen = place, True
    return _state.place


def readable() -> bool:
    """Whether entries are looked for: a place that has failed again and again would cost its retries."""
    return _state.unread < _PATIENCE


def note_read(*, failed: bool) -> None:
    """Tell how a read went."""
    _state.unread = _state.unread + 1 if failed else 0


def writable() -> bool:
    """Whether entries are written: until the place has refused one."""
    return _state.writable


def stop_writing() -> None:
    """Write no more entries, until another place is set."""
    _state.writable = False


def _place(path: str, max_bytes: int | None) -> Directory | Remote:
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is no path. Name a directory or a URL, or give None")
    for scheme in _LOCAL_SCHEMES:  # judged by owner and mode, however the directory is named
        if path.lower().startswith(scheme):
            return Directory(path[len(scheme) :], max_bytes)
    return Remote(path) if "://" in path else Directory(path, max_bytes)


def warn(message: str) -> None:
    """Warn once: a directory with one bad entry may have a thousand."""
    with _state.lock:
        if _state.warned:
            return
        _state.warned = True
    warnings.warn(f"tpu: compile cache: {message}", stacklevel=3)
