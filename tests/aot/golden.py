# SPDX-License-Identifier: Apache-2.0
"""Read and write the golden files: one per chip, with the expected outcome of every case."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.aot.rows import CHECKS, DTYPES, Case, Outcome, Row

FOLDER = Path(__file__).with_name("golden")

Key = tuple[str, Case]


def read(folder: Path = FOLDER) -> dict[Key, Row]:
    """Return the rows of all golden files, ordered by chip and subject (see rows.Case).

    Raises ValueError if a file contains an invalid cell.
    """
    rows: dict[Key, Row] = {}
    for file in sorted(folder.glob("*.json")):
        for subject, cells in json.loads(file.read_text(encoding="utf-8")).items():
            for name, cell in cells.items():
                dtype, check = name.split(" ")
                row = _row(Case(subject, dtype, check), file.stem, cell)
                rows[row.chip, row.case] = row
    return rows


def write(rows: Iterable[Row], folder: Path = FOLDER) -> None:
    """Add `rows` to the golden files, replacing existing rows for the same cases."""
    known = read(folder) | {(row.chip, row.case): row for row in rows}
    folder.mkdir(exist_ok=True)
    for chip in dict.fromkeys(chip for chip, _ in known):
        file = folder / f"{chip}.json"
        aside = file.with_suffix(".part")
        aside.write_text(text(known, chip), encoding="utf-8")
        aside.replace(file)


def text(rows: Mapping[Key, Row], chip: str) -> str:
    """Return the text of a chip's golden file.

    It has one line per subject: an operator, module, training step or kernel.
    """
    cells: dict[str, dict[str, str]] = {}
    order = sorted(
        (row for row in rows.values() if row.chip == chip),
        key=lambda row: (
            row.case.subject,
            CHECKS.index(row.case.check),
            DTYPES.index(row.case.dtype),
        ),
    )
    for row in order:
        name = f"{row.case.dtype} {row.case.check}"
        cells.setdefault(row.case.subject, {})[name] = _cell(row)
    lines = [f"{json.dumps(subject)}: {json.dumps(cell)}" for subject, cell in cells.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def surprise(row: Row, known: Mapping[Key, Row]) -> str:
    """Return the difference between a row and the golden file, or "" if there is none."""
    before = known.get((row.chip, row.case))
    if before is None:
        return f"{row}: not in the golden"
    if _cell(before) != _cell(row):
        return f"{row}: {_cell(before)} in the golden"
    return ""


def _cell(row: Row) -> str:
    """Return `compiled/samples`, plus the outcome and index of the first failure, if any."""
    cell = f"{row.compiled}/{row.samples}"
    return cell if row.first is None else f"{cell} {row.outcome.value} at {row.first}"


def _row(case: Case, chip: str, cell: str) -> Row:
    match = _CELL.fullmatch(cell)
    if match is None:
        raise ValueError(f"golden: {chip} {case}: {cell!r}. Write it again with --update")
    compiled, samples, outcome, first = match.groups()
    good = Outcome.COMPILED if int(samples) else Outcome.EMPTY
    return Row(
        case,
        chip,
        Outcome(outcome) if outcome else good,
        int(samples),
        int(compiled),
        int(first) if first else None,
    )


_CELL = re.compile(r"(\d+)/(\d+)(?: (\w+) at (\d+))?")
