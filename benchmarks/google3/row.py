# SPDX-License-Identifier: Apache-2.0
"""Measure a library's overhead over plain code that does the same work."""

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
    """How much to measure: bytes saved, records logged, and seconds of logging at a fixed rate."""

    bytes: int
    records: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """A comparison of two functions, `library` and `plain`, which do the same work in a directory.

    We promise that the ratio of their CPU times is at most `most`, and that `library` takes at most
    `most_added` seconds more; None means no promise. `prepare` runs before each function, untimed.
    `describe` runs after `library` and returns a description of the result.
    """

    name: str
    plain: Work
    library: Work
    most: float | None
    prepare: Work | None = None
    describe: Callable[[Path], str] | None = None
    most_added: float | None = None


@dataclass(frozen=True)
class Figure:
    """The result of a comparison. All numbers are medians over the rounds.

    The ratios and `cpu_added` compare `library` with `plain` in the same round. `descriptions` has
    the results of `Row.describe`, one per round.
    """

    name: str
    most: float | None
    most_added: float | None
    plain_cpu: float
    plain_wall: float
    cpu_ratio: float
    wall_ratio: float
    cpu_added: float
    descriptions: tuple[str, ...]


def measure(row: Row, directory: Path, *, rounds: int) -> Figure:
    """Run `plain` and `library` once per round, in alternating order, after a discarded warm-up."""
    plain: list[tuple[float, float]] = []
    library_times: list[tuple[float, float]] = []
    descriptions: list[str] = []

    def run_library() -> None:
        library_times.append(_timed(row, row.library, directory))
        if row.describe is not None:
            descriptions.append(row.describe(directory))

    for number in range(rounds + 1):
        if number % 2:
            plain.append(_timed(row, row.plain, directory))
            run_library()
        else:
            run_library()
            plain.append(_timed(row, row.plain, directory))
    pairs = list(zip(plain, library_times, strict=True))[1:]
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
    """Return the CPU time of `work`, including child processes, and its wall time, in seconds."""
    if row.prepare is not None:
        row.prepare(directory)
    before, begin = _cpu(), time.perf_counter()
    work(directory)
    wall = time.perf_counter() - begin
    return _cpu() - before, wall


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
