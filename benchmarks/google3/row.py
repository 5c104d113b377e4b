# SPDX-License-Identifier: Apache-2.0
"""One comparison of a library with doing without it, and how it is measured."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Work = Callable[[Path], object]


@dataclass(frozen=True)
class Row:
    """`ours` and `plain` do the same work in a directory; `most` is the ratio that is promised.

    `prepare` runs before each of them and is not counted. None as `most` promises nothing: a figure to
    read the others by.
    """

    name: str
    plain: Work
    ours: Work
    most: float | None
    prepare: Work | None = None


@dataclass(frozen=True)
class Figure:
    """Medians over the rounds: seconds of each, and of the ratios within each round."""

    name: str
    most: float | None
    plain_cpu: float
    plain_wall: float
    cpu_ratio: float
    wall_ratio: float


def measure(row: Row, directory: Path, *, rounds: int) -> Figure:
    """Run both in turn, in an order that changes, after a round that is not counted."""
    plain, ours = [], []
    for number in range(rounds + 1):
        if number % 2:
            plain.append(_timed(row, row.plain, directory))
            ours.append(_timed(row, row.ours, directory))
        else:
            ours.append(_timed(row, row.ours, directory))
            plain.append(_timed(row, row.plain, directory))
    pairs = list(zip(plain, ours, strict=True))[1:]
    return Figure(
        row.name,
        row.most,
        statistics.median(one[0] for one, _ in pairs),
        statistics.median(one[1] for one, _ in pairs),
        statistics.median(other[0] / one[0] for one, other in pairs),
        statistics.median(other[1] / one[1] for one, other in pairs),
    )


def _timed(row: Row, work: Work, directory: Path) -> tuple[float, float]:
    """Return seconds of CPU, with that of processes it waited for, and of the clock."""
    if row.prepare is not None:
        row.prepare(directory)
    before, begin = _cpu(), time.perf_counter()
    work(directory)
    wall = time.perf_counter() - begin
    return _cpu() - before, wall


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
