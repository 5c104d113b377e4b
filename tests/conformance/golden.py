# SPDX-License-Identifier: Apache-2.0
"""Read and write the golden files: one per dtype, with the expected outcome of every check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conformance.rows import CHECKS, DTYPES, Outcome, Row

FOLDER = Path(__file__).with_name("golden")

Key = tuple[str, str, str]


def read(folder: Path = FOLDER) -> dict[Key, Row]:
    """Return the rows of all golden files, ordered by dtype, operator and check."""
    rows: dict[Key, Row] = {}
    for dtype in DTYPES:
        file = folder / f"{dtype}.json"
        if file.exists():
            for op, checks in json.loads(file.read_text(encoding="utf-8")).items():
                for check, cell in checks.items():
                    row = _row(op, dtype, check, cell)
                    rows[row.key] = row
    return rows


def write(rows: Iterable[Row], folder: Path = FOLDER) -> None:
    """Add `rows` to the golden files, replacing existing rows with the same key."""
    known = read(folder) | {row.key: row for row in rows}
    folder.mkdir(exist_ok=True)
    for dtype in dict.fromkeys(row.dtype for row in known.values()):
        file = folder / f"{dtype}.json"
        aside = file.with_suffix(".part")
        aside.write_text(text(known, dtype), encoding="utf-8")
        aside.replace(file)


def text(rows: Mapping[Key, Row], dtype: str) -> str:
    lines = []
    for op in sorted({row.op for row in rows.values() if row.dtype == dtype}):
        cells = {
            check: _cell(rows[op, dtype, check]) for check in CHECKS if (op, dtype, check) in rows
        }
        lines.append(f"{json.dumps(op)}: {json.dumps(cells)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def surprise(row: Row, known: Mapping[Key, Row]) -> str:
    """Return the difference between a row and the golden file, or "" if there is none.

    If the golden file contains a failure for a sample that did not run, ignore this failure.
    """
    before = known.get(row.key)
    if before is None:
        return f"{row}: not in the golden"
    first = before.failing(row.taken)
    if row.first is not None and (first is None or row.first < first):
        return f"{row}: passes in the golden"
    if first is not None and (row.first is None or row.first > first):
        return f"{row}: {before.outcome.value} in the golden"
    return ""


def _cell(row: Row) -> str:
    """Return a row as `passed/samples`.

    Append `taken` and `total` if they differ from `samples`, and the first failure, if any.
    """
    parts = [f"{row.passed}/{row.samples}"]
    if not row.samples == row.taken == row.total:
        parts.append(f"of {row.taken}/{row.total}")
    if row.first is not None:
        parts.append(f"{row.outcome.value} at {row.first}")
    return " ".join(parts)


def _row(op: str, dtype: str, check: str, cell: str) -> Row:
    match = _CELL.fullmatch(cell)
    if match is None:
        raise ValueError(f"golden: {op} {dtype} {check}: {cell!r}. Write it again with --update")
    passed, samples, taken, total, outcome, first = match.groups()
    missing = Outcome.EMPTY if samples == "0" else Outcome.PASSED
    return Row(
        op,
        dtype,
        check,
        Outcome(outcome) if outcome else missing,
        int(samples),
        int(passed),
        taken=int(taken or samples),
        total=int(total or samples),
        first=int(first) if first else None,
    )


_CELL = re.compile(r"(\d+)/(\d+)(?: of (\d+)/(\d+))?(?: (\w+) at (\d+))?")
