# SPDX-License-Identifier: Apache-2.0
"""The generator of TABLE.md."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path

from tests.fbcode.page import cell, put
from tests.upstream.distributed.comparison import Row, Verdict

_HEAD = """# Results of torch v2.6.0's distributed tests on tpu

Written by `run.py --page`; see the [README](README.md). A test applies if it is not skipped on tpu
and does not fail on the CPU. The percentage is that of the tests that apply.
"""
_SECTIONS = {
    Verdict.FAILED: "Failures",
    Verdict.KNOWN: "Failures with a known cause",
    Verdict.OTHER_RELEASE: "Tests that do not apply: they fail on the CPU as well",
    Verdict.SKIPPED: "Skips",
}


def write(rows: Sequence[Row], file: Path) -> None:
    """Write the page. Raises OSError."""
    lines = [_HEAD, *counts(rows)]
    for verdict, title in _SECTIONS.items():
        names = collections.defaultdict(list)
        for row in rows:
            if row.verdict is verdict:
                names[row.reason.partition("\n")[0]].append(f"`{row.name}`")
        if names:
            lines += ["", f"## {title}", "", "| reason | tests |", "|---|---|"]
            lines += [
                f"| {cell(reason)} | {len(tests)}: {', '.join(tests)} |"
                for reason, tests in sorted(names.items(), key=lambda item: -len(item[1]))
            ]
    put("\n".join(lines) + "\n", file)


def counts(rows: Sequence[Row]) -> list[str]:
    """Return the table of counts by area."""
    lines = ["| area | tests | apply | passed | | failed | known | other release | skipped |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    areas: collections.defaultdict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        areas[row.area].append(row)
    lines += [_line(area, of_area) for area, of_area in areas.items()]
    return [*lines, _line("all", rows)]


def _line(area: str, rows: Sequence[Row]) -> str:
    by_verdict = collections.Counter(row.verdict for row in rows)
    apply, passed = sum(row.applies for row in rows), by_verdict[Verdict.PASSED]
    part = f"{100 * passed / apply:.1f} %" if apply else ""
    others = (Verdict.FAILED, Verdict.KNOWN, Verdict.OTHER_RELEASE, Verdict.SKIPPED)
    numbers = [len(rows), apply, passed, part, *(by_verdict[verdict] for verdict in others)]
    return f"| {area} | {' | '.join(map(str, numbers))} |"
