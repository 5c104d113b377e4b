# SPDX-License-Identifier: Apache-2.0
"""Generate TABLE.md: counts of tests by device, and the reasons for skips."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.fbcode.outcomes import KNOWN, Ran
from tools.presubmit.results import Outcome

_HEAD = """# Results of the suites

Written by `tests/fbcode/run.py --page` from a results file. The [README](README.md) says which part of
torch's tables it covers. `known`: the test ran and failed, and `devices/known.json` has the reason.
"""


def write(results: Iterable[Ran], file: Path) -> None:
    """Generate the page for `results`, and write it to `file`."""
    put(text(list(results)), file)


def text(results: Sequence[Ran]) -> str:
    """Return the text of TABLE.md."""
    lines = [_HEAD, "| suite | device | ran | passed | failed | known | skipped |"]
    lines.append("|---|---|---|---|---|---|---|")
    rows = collections.defaultdict(list)
    for ran in results:
        rows[_suite(ran.suite), ran.device or "none"].append(ran)
    lines += [_row(*name, rows[name]) for name in sorted(rows)]
    lines.append(_row("all", "", results))
    lines += _reasons("Known failures", [ran for ran in results if ran.is_known])
    skipped = [ran for ran in results if ran.outcome is Outcome.SKIPPED and not ran.is_known]
    lines += _reasons("Skipped", skipped)
    return "\n".join(lines + failures(results)) + "\n"


def _suite(name: str) -> str:
    """Return a suite's title: `operators: TestReferences` for a class, `operators` for a file."""
    file, _, cls = name.partition("::")
    return file.removesuffix("_test") + (f": {cls}" if cls else "")


def _row(suite: str, device: str, results: Sequence[Ran]) -> str:
    counts = collections.Counter(ran.outcome for ran in results)
    known = sum(ran.is_known for ran in results)
    passed, failed = counts[Outcome.PASSED], counts[Outcome.FAILED]
    numbers = (passed + failed + known, passed, failed, known, counts[Outcome.SKIPPED] - known)
    return f"| {suite} | {device} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def _reasons(title: str, results: Sequence[Ran]) -> list[str]:
    if not results:
        return []
    lines = ["", f"## {title}", "", "| reason | device | tests |", "|---|---|---|"]
    counts = collections.Counter(
        (ran.reason.removeprefix(KNOWN), ran.device or "none") for ran in results
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    lines += [f"| {cell(reason)} | {device} | {n:,} |" for (reason, device), n in ordered]
    return lines


def failures(results: Sequence[Ran]) -> list[str]:
    """Return the lines of a section that lists the failed tests, or [] if none failed."""
    failed = sorted((r for r in results if r.outcome is Outcome.FAILED), key=lambda ran: ran.key)
    if not failed:
        return []
    names = [f"- `{ran.suite}::{ran.test}`: {cell(ran.reason)}" for ran in failed]
    return ["", "## Failed", "", *names]


def put(page: str, file: Path) -> None:
    """Write a page to a file atomically."""
    temporary = file.with_name(f"{file.name}.part")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(file)


def cell(content: str) -> str:
    """Escape text for a Markdown table cell."""
    return content.replace("|", "\\|").replace("<", "\\<")
