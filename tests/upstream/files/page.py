# SPDX-License-Identifier: Apache-2.0
"""Generate TABLE.md: the counts of torch's tests, and the reasons for failures and skips."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.fbcode.outcomes import KNOWN, Ran
from tests.fbcode.page import cell, failures, put
from tools.presubmit.results import Outcome

# Parts of a skip reason that differ between skips with the same cause: addresses and numbers.
_VARYING = re.compile(r"0x[0-9a-f]+|(?<![\w.])\d+(?![\w.])")
# Parts of a skip reason that are removed because they do not help a reader: a URL up to its last
# slash, and a to-do marker.
_IDLE = re.compile(r"https?://\S*/|\bTO[D]O: *")
_WIDTH = 150
_HEAD = """# Results of torch's own tests

Written by `tests/upstream/files/run.py --page` from a results file; see the [README](README.md).
`known`: the test ran and failed, and `exceptions.json` has the reason. The percentage is the share
of passed tests among those that ran. Seconds are wall-clock time in the tests only.
"""


def write(results: Iterable[Ran], file: Path) -> None:
    """Write the page to a file, atomically."""
    put(text(list(results)), file)


def text(results: Sequence[Ran]) -> str:
    """Return the text of TABLE.md."""
    lines = [_HEAD, "| file | device | ran | passed | | failed | known | skipped | seconds |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    rows = collections.defaultdict(list)
    for ran in results:
        rows[ran.suite.partition("::")[0], ran.device or "none"].append(ran)
    lines += [_row(*name, rows[name]) for name in sorted(rows)]
    lines.append(_row("all", "", results))
    known = sorted((ran for ran in results if ran.is_known), key=lambda ran: ran.key)
    if known:
        lines += ["", "## Known failures", "", "| reason | tests |", "|---|---|"]
        by_reason = collections.defaultdict(list)
        for ran in known:
            by_reason[ran.reason.removeprefix(KNOWN)].append(f"`{ran.suite}::{ran.test}`")
        lines += [
            f"| {cell(reason)} | {len(names)}: {', '.join(names)} |"
            for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))
        ]
    skipped = [ran for ran in results if ran.outcome is Outcome.SKIPPED and not ran.is_known]
    if skipped:
        lines += ["", "## Skipped", "", "| reason | files | tests |", "|---|---|---|"]
        lines += _skips(skipped)
    return "\n".join(lines + failures(results)) + "\n"


def _row(file: str, device: str, results: Sequence[Ran]) -> str:
    counts = collections.Counter(ran.outcome for ran in results)
    known = sum(ran.is_known for ran in results)
    passed, failed = counts[Outcome.PASSED], counts[Outcome.FAILED]
    ran = passed + failed + known
    part = f"{100 * passed / ran:.2f} %" if ran else ""
    numbers = (failed, known, counts[Outcome.SKIPPED] - known)
    cells = [file, device, f"{ran:,}", f"{passed:,}", part, *(f"{number:,}" for number in numbers)]
    cells.append(f"{sum(one.seconds for one in results):,.0f}")
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
    text = _VARYING.sub("N", _IDLE.sub("", first)) or "no reason was given"
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
