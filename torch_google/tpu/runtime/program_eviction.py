# SPDX-License-Identifier: Apache-2.0
"""Evicts programs before the process runs out of memory mappings.

XLA:CPU maps three memory regions per kernel. A single operator's program has a few, a fused one
hundreds. Linux limits a process's mappings (`vm.max_map_count`), and XLA aborts the process at
the limit. So the least recently used programs are evicted before that. If one is needed again, it
is compiled again or loaded from the compile cache.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from torch_google.tpu import _C

_LIMIT = Path("/proc/sys/vm/max_map_count")
_MAPPINGS = Path("/proc/self/maps")
# The share of Linux's limit that we use. The remainder is for the program that is being compiled.
_PART = 0.5
# An upper bound on the number of mappings that all threads of a large machine can add per second.
_RATE = 16_000
_SOONEST = 0.05


class MappingBudget:
    """Keeps the process below `allowed` mappings. Counts them only if there can be that many."""

    def __init__(self, allowed: float, most: float) -> None:
        self._allowed = allowed
        self._most = most
        self._next = 0.0

    def look(self) -> int:
        """Evict programs if there are too many mappings. Return the number evicted."""
        now = time.monotonic()
        if now < self._next:
            return 0
        # Until this check is done, other threads skip it.
        self._next = math.inf
        # If a signal handler raises, the next check assumes this count.
        count = self._allowed
        forgotten = 0
        try:
            count = mappings()
            if count > self._allowed:
                forgotten = _C.forget_unused()
                count = mappings()
                if count > self._allowed:
                    # Other code created the mappings: raise the bound, because evicting programs
                    # does not help.
                    self._allowed = (count + self._most) / 2
        finally:
            self._next = now + max(_SOONEST, (self._allowed - count) / _RATE)
        return forgotten


def mappings() -> int:
    """Return the process's number of memory mappings, or 0 if unknown."""
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
