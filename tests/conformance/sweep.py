# SPDX-License-Identifier: Apache-2.0
"""Select and run many checks, and resume an interrupted run."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.conformance import rows
from tests.conformance.rows import Row
from tests.conformance.samples import operators
from tests.conformance.trial import applies, few
from tests.conformance.worker import Worker


@dataclass(frozen=True)
class Task:
    """A check to run for an operator and a dtype. `strides` is part of `forward`."""

    op: str
    dtype: str
    check: str

    @property
    def keys(self) -> tuple[tuple[str, str, str], ...]:
        checks = ("forward", "strides") if self.check == "forward" else (self.check,)
        return tuple((self.op, self.dtype, check) for check in checks)


def tasks(
    patterns: Sequence[str], dtypes: Sequence[str], checks: Sequence[str], shard: tuple[int, int]
) -> list[Task]:
    """Return a task for each selected operator, dtype and check for which `applies` is true.

    `shard` is (i, n), which selects the i-th of n parts, counting from 0. The tasks are ordered by
    dtype and operator, because the checks of an operator share compiled programs.

    Raises ValueError if a pattern matches no operator.
    """
    table = operators()
    unknown = [p for p in patterns if not fnmatch.filter(table, p)]
    if unknown:
        raise ValueError(f"no operator {', '.join(unknown)} in op_db. See --list")
    names = [n for n in table if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    declared = [
        Task(name, dtype, check)
        for dtype in dtypes
        for name in names
        for check in checks
        if check != "strides"
        if applies(table[name], getattr(torch, dtype), check)
    ]
    return declared[shard[0] :: shard[1]]


def sweep(
    selected: Sequence[Task],
    *,
    samples: float | None,
    seconds: float,
    file: Path | None,
    again: bool,
) -> Iterator[Row]:
    """Run the tasks that have no rows in `file`, append their rows to it, and yield all rows.

    `samples` is the number of samples per row: math.inf means all, and None means the number that
    gate_test.py runs. If `again` is set, rerun the rows that did not pass.
    """
    known = read(file) if file and file.exists() else {}
    with Worker(seconds=seconds) as worker:
        for task in selected:
            results = [known[key] for key in task.keys if key in known]
            count = few(task.dtype, task.check) if samples is None else samples
            if (
                len(results) < len(task.keys)
                or any(r.taken < min(count, r.total) and not r.ended for r in results)
                or (again and any(r.counts and not r.good for r in results))
            ):
                results = worker.run(
                    task.op, task.dtype, task.check, None if count == math.inf else int(count)
                )
                if file:
                    with file.open("a", encoding="utf-8") as lines:
                        lines.writelines(rows.to_json(row) + "\n" for row in results)
            yield from results


def read(file: Path) -> dict[tuple[str, str, str], Row]:
    """Return the rows in `file`, keyed by `Row.key`. The last row with a given key wins."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return {row.key: row for row in map(rows.from_json, lines)}
