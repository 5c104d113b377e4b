# SPDX-License-Identifier: Apache-2.0
"""The page of tables: how many of torch's own tests ran, and why others failed or were skipped."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.fbcode.outcomes import KNOWN, Ran
from tests.fbcode.page import cell, failures, put
from tools.presubmit.results import Outcome

# What differs between skips for the same reason.
_VARYING = re.compile(r"0x[0-9a-f]+|(?<![\w.])\d+(?![\w.])")
# What says nothing of a reason: where a file is, and whose turn it is.
_IDLE = re.compile(r"https?://\S*/|\bTO[D]O: *")
_WIDTH = 150
_HEAD = """# What torch's own tests gave

Written by `tests/upstream/files/run.py --page`, of the tests that its results file has; the
[README](README.md) says how. `known`: it was run and did not pass, as `exceptions.json` says, with the
reason. `passed` in per cent is of those that ran. Time is of the clock, in the tests alone.
"""


def write(found: Iterable[Ran], file: Path) -> None:
    """Write the page. Raises OSError."""
    put(text(list(found)), file)


def text(found: Sequence[Ran]) -> str:
    """Return the page."""
    lines = [_HEAD, "| file | device | ran | passed | | failed | known | skipped | seconds |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    rows = collections.defaultdict(list)
    for ran in found:
        rows[ran.suite.partition("::")[0], ran.device or "none"].append(ran)
    lines += [_row(*name, rows[name]) for name in sorted(rows)]
    lines.append(_row("all", "", found))
    known = sorted((ran for ran in found if ran.is_known), key=lambda ran: ran.key)
    if known:
        lines += ["", "## Known not to pass", "", "| reason | tests |", "|---|---|"]
        by_reason = collections.defaultdict(list)
        for ran in known:
            by_reason[ran.reason.removeprefix(KNOWN)].append(f"`{ran.suite}::{ran.test}`")
        lines += [
            f"| {cell(reason)} | {len(names)}: {', '.join(names)} |"
            for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))
        ]
    skipped = [ran for ran in found if ran.outcome is Outcome.SKIPPED and not ran.is_known]
    if skipped:
        lines += ["", "## Skipped", "", "| reason | files | tests |", "|---|---|---|"]
        lines += _skips(skipped)
    return "\n".join(lines + failures(found)) + "\n"


def _row(file: str, device: str, found: Sequence[Ran]) -> str:
    counts = collections.Counter(ran.outcome for ran in found)
    known = sum(ran.is_known for ran in found)
    passed, failed = counts[Outcome.PASSED], counts[Outcome.FAILED]
    ran = passed + failed + known
    part = f"{100 * passed / ran:.2f} %" if ran else ""
    numbers = (failed, known, counts[Outcome.SKIPPED] - known)
    cells = [file, device, f"{ran:,}", f"{passed:,}", part, *(f"{number:,}" for number in numbers)]
    cells.append(f"{sum(one.seconds for one in found):,.0f}")
    return f"| {' | '.join(cells)} |"


def _skips(skipped: Sequence[Ran]) -> list[str]:
    groups = collections.defaultdict(list)
    for ran in skipped:
        groups[_grouped(ran.reason)].append(ran.suite.partition("::")[0])
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        f"| {cell(reason)} | {', '.join(sorted(set(files)))} | {len(files):,} |"
        for reason, files in ordered
    ]


def _grouped(reason: str) -> str:
    first = (reason.splitlines() or [""])[0]
    words = _VARYING.sub("N", _IDLE.sub("", first)) or "no reason was given"
    return words if len(words) <= _WIDTH else f"{words[: _WIDTH - 3]}..."
