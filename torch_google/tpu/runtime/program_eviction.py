# SPDX-License-Identifier: Apache-2.0
"""Evicts programs before the process runs out of memory mappings.

XLA:CPU maps three memory regions per kernel. The program of a single operator has a few kernels, a
fused program hundreds. Linux limits the number of mappings of a process (`vm.max_map_count`), and
XLA aborts the process at that limit. The least recently used programs are therefore evicted before
the limit is reached. If an evicted program is needed again, it is compiled again or loaded from the
compile cache.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from torch_google.tpu import _C

_LIMIT = Path("/proc/sys/vm/max_map_count")
_MAPPINGS = Path("/proc/self/maps")
# Eviction starts at this fraction of Linux's limit on memory mappings. The rest is reserved for
# programs that are being compiled.
_PART = 0.5
# The highest rate, in mappings per second, at which all threads of a large machine together can add
# mappings.
_RATE = 16_000
_SOONEST = 0.05


class MappingBudget:
    """Keeps the process below `allowed` mappings.

    Counting mappings is slow, so they are counted again only when enough time has passed for the
    process to reach the limit.
    """

    def __init__(self, allowed: float, most: float) -> None:
        self._allowed = allowed
        self._most = most
        self._next = 0.0

    def look(self) -> int:
        """Evict programs if there are too many mappings. Return the number of evicted programs."""
        now = time.monotonic()
        if now < self._next:
            return 0
        # Other threads skip their checks until this check is done.
        self._next = math.inf
        # With this initial count, the next check happens soon if a signal handler raises before the
        # mappings are counted.
        count = self._allowed
        forgotten = 0
        try:
            count = mappings()
            if count > self._allowed:
                forgotten = _C.forget_unused()
                count = mappings()
                if count > self._allowed:
                    # The remaining mappings do not belong to evictable programs, so raise the limit
                    # instead.
                    self._allowed = (count + self._most) / 2
        finally:
            self._next = now + max(_SOONEST, (self._allowed - count) / _RATE)
        return forgotten


def mappings() -> int:
    """Return the number of memory mappings of this process, or 0 if that is unknown."""
    try:
        return _MAPPINGS.read_bytes().count(b"\n")
    except OSError:
        return 0


def _budget() -> MappingBudget:
    try:
        most = int(_LIMIT.read_text())
    except (OSError, ValueError):
        most = 1 << 62  # only Linux limits the number of mappings
    return MappingBudget(_PART * most, most)


BUDGET = _budget()
"""The budget of memory mappings of this process."""
