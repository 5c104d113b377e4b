# SPDX-License-Identifier: Apache-2.0
"""Read the CPU time and memory of a Bazel server and its actions from /proc."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_PROC = Path("/proc")
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20
# Indices of fields in /proc/PID/stat, counted from the one after the name, which may contain
# spaces.
_PARENT, _USER, _SYSTEM, _CHILDREN_USER, _CHILDREN_SYSTEM, _RESIDENT = 1, 11, 12, 13, 14, 21


@dataclass(frozen=True)
class Cpu:
    """The CPU time, in seconds, of a process and, in `children`, of its exited descendants."""

    own: float
    children: float

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.own - before.own, self.children - before.children)


def cpu(pid: int) -> Cpu:
    """Return a process's CPU time so far. Raises OSError if the process does not exist."""
    fields = _fields(pid)
    own = int(fields[_USER]) + int(fields[_SYSTEM])
    children = int(fields[_CHILDREN_USER]) + int(fields[_CHILDREN_SYSTEM])
    return Cpu(own * _TICK, children * _TICK)


def resident_below(pid: int) -> list[float]:
    """Return the resident memory, in MiB, of each descendant of `pid`."""
    parents: dict[int, list[int]] = {}
    resident: dict[int, float] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = _fields(int(entry.name))
        except OSError:  # the process has exited
            continue
        parents.setdefault(int(fields[_PARENT]), []).append(int(entry.name))
        resident[int(entry.name)] = int(fields[_RESIDENT]) * _PAGE
    below, sizes = list(parents.get(pid, [])), []
    while below:
        child = below.pop()
        sizes.append(resident[child])
        below += parents.get(child, [])
    return sizes


class MemoryWatch:
    """A context manager that samples the memory of a process's descendants twice a second.

    together: the peak of the sum over all descendants, in MiB. Shared pages count once per process.
    largest: the peak of any single descendant, in MiB.
    """

    def __init__(self, pid: int, *, interval: float = 0.5) -> None:
        self.together = self.largest = 0.0
        self._pid = pid
        self._interval = interval
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(self._interval):
            sizes = resident_below(self._pid)
            self.together = max(self.together, sum(sizes))
            self.largest = max(self.largest, max(sizes, default=0))


def _fields(pid: int) -> list[str]:
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
