# SPDX-License-Identifier: Apache-2.0
"""Evicts programs before the process runs out of memory mappings.

XLA:CPU maps three memory regions per kernel: a few for a single operator's program, hundreds for a
fused one. Linux limits a process's mappings (`vm.max_map_count`), and XLA aborts the process at the
limit. So the least recently used programs are evicted earlier. If one is needed again, it is
compiled again or loaded from the compile cache.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from torch_google.tpu import _C

_LIMIT = Path("/proc/sys/vm/max_map_count")
_MAPPINGS = Path("/proc/self/maps")
# The share of the limit that the process may use, as a trace being compiled needs mappings too.
_PART = 0.5
# Upper bound on the mappings that a large machine's threads add per second.
_RATE = 16_000
_SOONEST = 0.05


class MappingBudget:
    """Keeps the process below `allowed` mappings; counts them only when it may be near that."""

    def __init__(self, allowed: float, most: float) -> None:
        self._allowed = allowed
        self._most = most
        self._next = 0.0

    def look(self) -> int:
        """Evict programs if there are too many mappings. Return the number evicted."""
        now = time.monotonic()
        if now < self._next:
            return 0
        self._next = math.inf  # other threads need not check
        count = self._allowed  # used if a signal handler raises below
        forgotten = 0
        try:
            count = mappings()
            if count > self._allowed:
                forgotten = _C.forget_unused()
                count = mappings()
                if count > self._allowed:
                    # The mappings are not our programs': raise the bound, so that programs are not
                    # evicted in vain.
                    self._allowed = (count + self._most) / 2
        finally:
            self._next = now + max(_SOONEST, (self._allowed - count) / _RATE)
        return forgotten


def mappings() -> int:
    """Return the number of memory mappings of the process, or 0 if unknown."""
    try:
        return _MAPPINGS.read_bytes().count(b"\n")
    except OSError:
        return 0


def _budget() -> MappingBudget:
    try:
        most = int(_LIMIT.read_text())
    except (OSError, ValueError):
        most = 1 << 62  # not Linux
    return MappingBudget(_PART * most, most)


BUDGET = _budget()
"""The budget of this process."""
