# SPDX-License-Identifier: Apache-2.0
"""A row of results, and the results file, which a run rewrites after each row."""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.models.model import BASE, KINDS, PROGRAMS, Key

BENCHMARK = "models"
TITLES = {"infer": "inference", "train": "training"}


class Verdict(enum.StrEnum):
    """The outcome of a row. The row has times only if it is `PASSED`."""

    PASSED = "passed"
    DIFFERS = "differs"
    FAILED = "failed"
    SLOW = "slow"
    CRASHED = "crashed"
    BROKEN = "broken"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """The cost of a run (inference or a training step) of a model in a program.

    `cpu_seconds` and `wall_seconds` are medians over the rounds. `ratio` is the CPU time divided by
    that of `torch` in the same round, also as a median. `start_cpu` and `start_wall` are the times,
    in seconds, of the setup and the warm-up runs, which continue until they compile nothing. `load`
    is the machine's load average right after the measurement.
    """

    model: str
    kind: str
    program: str
    verdict: Verdict
    cause: str = ""
    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    ratio: float | None = None
    start_cpu: float | None = None
    start_wall: float | None = None
    rounds: float | None = None
    load: float | None = None

    @property
    def key(self) -> Key:
        return Key(self.model, self.kind, self.program)


def read(path: Path) -> list[Row]:
    """Return the rows in a results file, or an empty list if the file does not exist."""
    if not path.exists():
        return []
    return rows_of(results.read(path))


def rows_of(run: results.Results) -> list[Row]:
    return [Row(**{**row, "verdict": Verdict(row["verdict"])}) for row in run.details["rows"]]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Replace a results file with these rows and with figures that summarize them."""
    ordered = sorted(rows, key=_order)
    results.write(
        path, BENCHMARK, figures(ordered), details={"rows": [_fields(r) for r in ordered]}
    )


def figures(rows: Sequence[Row]) -> list[results.Figure]:
    """Return the geometric mean of each program's ratios, over the models that passed."""
    return [
        results.Figure(
            case=f"Geometric mean over models, {TITLES[kind]}",
            subject=program,
            peer=BASE,
            threads=1,
            number=len(passed),
            total=len(mine),
            unit="models",
            cpu_ratio=geometric_mean(passed),
            note=_failures(mine) or None,
        )
        for kind in KINDS
        for program in PROGRAMS
        if program != BASE
        and (mine := [r for r in rows if r.kind == kind and r.program == program])
        and (passed := [r.ratio for r in mine if r.ratio is not None])
    ]


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def common(rows: Sequence[Row], kind: str) -> dict[str, list[float]]:
    """Return each program's ratios, for the models that passed in every program."""
    programs = [each for each in PROGRAMS if any(r.program == each for r in rows if r.kind == kind)]
    ratios = {(r.model, r.program): r.ratio for r in rows if r.kind == kind and r.ratio is not None}
    models = [
        model
        for model in dict.fromkeys(model for model, _ in ratios)
        if all((model, program) in ratios for program in programs)
    ]
    return {each: [ratios[model, each] for model in models] for each in programs}


def _failures(rows: Sequence[Row]) -> str:
    counts = {verdict: sum(r.verdict == verdict for r in rows) for verdict in Verdict}
    return ", ".join(f"{n} {v}" for v, n in counts.items() if n and v != Verdict.PASSED)


def _order(row: Row) -> tuple[int, str, int]:
    return KINDS.index(row.kind), row.model, PROGRAMS.index(row.program)


def _fields(row: Row) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(row).items() if value not in (None, "")}
