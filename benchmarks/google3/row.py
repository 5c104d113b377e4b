# SPDX-License-Identifier: Apache-2.0
"""A comparison between a library and plain code, and its measurement."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Work = Callable[[Path], object]


@dataclass(frozen=True)
class Sizes:
    """The amount of work: bytes to save and load, records to log, and seconds of steady logging."""

    bytes: int
    records: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """A comparison. `ours` and `plain` do the same work in a directory.

    `most` is the limit that we promise for the ratio of CPU times, and `most_added` the limit for
    additional seconds; None means no promise. `prepare` runs before each side and is not timed.
    `found` runs after each run of `ours` and returns a description of the result.
    """

    name: str
    plain: Work
    ours: Work
    most: float | None
    prepare: Work | None = None
    found: Callable[[Path], str] | None = None
    most_added: float | None = None


@dataclass(frozen=True)
class Figure:
    """The medians, over all rounds, of each side's seconds and of the round's ratio and difference.

    `found` holds the description that `Row.found` returned in each round.
    """

    name: str
    most: float | None
    most_added: float | None
    plain_cpu: float
    plain_wall: float
    cpu_ratio: float
    wall_ratio: float
    cpu_added: float
    found: tuple[str, ...]


def measure(row: Row, directory: Path, *, rounds: int) -> Figure:
    """Run both sides in alternating order, after a warm-up round that is not counted."""
    plain: list[tuple[float, float]] = []
    our_times: list[tuple[float, float]] = []
    descriptions: list[str] = []

    def run_ours() -> None:
        our_times.append(_timed(row, row.ours, directory))
        if row.found is not None:
            descriptions.append(row.found(directory))

    for number in range(rounds + 1):
        if number % 2:
            plain.append(_timed(row, row.plain, directory))
            run_ours()
        else:
            run_ours()
            plain.append(_timed(row, row.plain, directory))
    pairs = list(zip(plain, our_times, strict=True))[1:]
    return Figure(
        row.name,
        row.most,
        row.most_added,
        statistics.median(one[0] for one, _ in pairs),
        statistics.median(one[1] for one, _ in pairs),
        statistics.median(other[0] / one[0] for one, other in pairs),
        statistics.median(other[1] / one[1] for one, other in pairs),
        statistics.median(other[0] - one[0] for one, other in pairs),
        tuple(descriptions[1:]),
    )


def clear(directory: Path) -> None:
    """Remove all files in the directory."""
    for path in directory.rglob("*"):
        if path.is_file():
            path.unlink()


def _timed(row: Row, work: Work, directory: Path) -> tuple[float, float]:
    """Return the CPU seconds so far, including child processes, and the wall-clock time."""
    if row.prepare is not None:
        row.prepare(directory)
    before, begin = _cpu(), time.perf_counter()
    work(directory)
    wall = time.perf_counter() - begin
    return _cpu() - before, wall


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
