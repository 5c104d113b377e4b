# SPDX-License-Identifier: Apache-2.0
"""Generate TABLE.md from results.json: `python -m tests.ecosystem.page`. run.py also does this."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from pathlib import Path

from tests.ecosystem import results, source
from tests.ecosystem.case import ALL, table
from tests.ecosystem.results import Row, Verdict

FILE = Path(__file__).with_name("TABLE.md")

_HEAD = """# Libraries on tpu

Written by `tests/ecosystem/run.py` from `results.json`; the [README](README.md) explains the
columns. A case passes if its results equal the CPU's, without a change in the user's code.
"""
STALE = "stale"
"""Replaces the verdict of a row whose case has changed since it ran."""


def write(rows: Iterable[Row], file: Path = FILE) -> None:
    """Write TABLE.md atomically."""
    temporary = file.with_name(f"{file.name}.part")
    temporary.write_text(text(rows), encoding="utf-8")
    temporary.replace(file)


def text(rows: Iterable[Row]) -> str:
    """Return the text of TABLE.md."""
    rows = sorted(rows)
    lines = [_HEAD, *_summary(rows), "", "## Cases", ""]
    lines += ["| library | version | case | mode | verdict | cause |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.library} | {row.version} | {row.case} | {row.mode} | {shown(row)} |"
        f" {_cell(row.cause)} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def shown(row: Row) -> str:
    """Return the verdict of a row, or STALE if the case has changed or has been removed."""
    case = table().get(f"{row.library}/{row.case}")
    current = case is not None and row.source == source.digest(case)
    return row.verdict if current else STALE


def _summary(rows: list[Row]) -> list[str]:
    libraries = len({row.library for row in rows})
    cases = len({(row.library, row.case) for row in rows})
    lines = [f"{libraries} libraries, {cases} cases, {len(rows)} rows.", ""]
    all_shown = {row: shown(row) for row in rows}
    verdicts = [verdict for verdict in (*Verdict, STALE) if verdict in all_shown.values()]
    lines.append("| mode | rows | " + " | ".join(verdicts) + " | passed, % |")
    lines.append("|---" * (len(verdicts) + 3) + "|")
    for mode in (*ALL, "all"):
        counts = collections.Counter(all_shown[row] for row in rows if mode in (row.mode, "all"))
        if counts.total():
            share = 100 * counts[Verdict.PASSED] / counts.total()
            numbers = " | ".join(str(counts[verdict]) for verdict in verdicts)
            lines.append(f"| {mode} | {counts.total()} | {numbers} | {share:.1f} |")
    return lines


def _cell(content: str) -> str:
    return content.replace("|", "\\|").replace("<", "\\<").replace("`", "'")


if __name__ == "__main__":
    write(results.read())
