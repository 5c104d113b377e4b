# SPDX-License-Identifier: Apache-2.0
"""Room for programs in the process.

XLA for the CPU maps three pieces of memory for each kernel: some for a program of one operator, some
hundred for a fused one. The kernel gives a process so many (`vm.max_map_count`), and XLA ends a process
that gets no more. So the programs that were not of use for the longest time are forgotten before that;
who needs one again compiles it again, or finds it in the compile cache.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from torch_google.tpu import _C

_LIMIT = Path("/proc/sys/vm/max_map_count")
_MAPPINGS = Path("/proc/self/maps")
# Of the limit, what the process may have: a trace that is being compiled needs some, too.
_PART = 0.5
# How many mappings the threads of a large machine may add in a second, with room to spare.
_RATE = 16_000
_SOONEST = 0.05


class MappingBudget:
    """Looks after `allowed` mappings, as often as they might be reached."""

    def __init__(self, allowed: float, most: float) -> None:
        self._allowed = allowed
        self._most = most
        self._next = 0.0

    def look(self) -> int:
        """Forget programs where there are too many mappings. Return how many, 0 where it is too soon."""
        now = time.monotonic()
        if now < self._next:
            return 0
        self._next = math.inf  # other threads need not look, too
        held = self._allowed  # what is said where a signal's handler raises
        forgotten = 0
        try:
            held = mappings()
            if held > self._allowed:
                forgotten = _C.forget_unused()
                held = mappings()
                if held > self._allowed:
                    # Others have them: programs shall not be forgotten again and again.
                    self._allowed = (held + self._most) / 2
        finally:
            self._next = now + max(_SOONEST, (self._allowed - held) / _RATE)
        return forgotten


def mappings() -> int:
    """Return how many mappings of memory the process has; 0 where nobody knows."""
    try:
        return _MAPPINGS.read_bytes().count(b"\n")
    except OSError:
        return 0


def _budget() -> MappingBudget:
    try:
        most = int(_LIMIT.read_text())
    except (OSError, ValueError):
        most = 1 << 62  # no Linux
    return MappingBudget(_PART * most, most)


BUDGET = _budget()
"""That of this process."""
