# SPDX-License-Identifier: Apache-2.0
"""Generate TABLE.md from the verdicts of the tests."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from tests.fbcode.page import cell
from tests.upstream.distributed import catalogue, device_use
from tests.upstream.distributed.comparison import Row, Verdict

_HEAD = """# Results of torch v2.6.0's distributed tests on tpu

Written by `run.py --publish` from `results.json`; see the [README](README.md). A test applies unless
it is skipped by upstream's own conditions, fails with the same error on the CPU with gloo, or is in
`not_applicable.json`. The percentage is the share of passed tests among those that apply.

The column "of these on host" counts the passed tests in which no rank allocates memory on the
device. They check torch's own code on CPU tensors, fake tensors or plain Python objects. A question mark
means that the use of the device was not recorded, for some or all tests.

The page names up to eight tests for each known cause. `results.json` contains all of them.
"""
_SECTIONS = {
    Verdict.FAILED: "Failures without a known cause",
    Verdict.KNOWN: "Failures with a known cause",
    Verdict.NOT_APPLICABLE: "Tests that do not apply to the device",
    Verdict.OTHER_RELEASE: "Tests of another release: the same error on the CPU with gloo",
    Verdict.SKIPPED: "Skips",
}
_OTHERS = (
    Verdict.FAILED,
    Verdict.KNOWN,
    Verdict.NOT_APPLICABLE,
    Verdict.OTHER_RELEASE,
    Verdict.SKIPPED,
)

# pytest reports an expected failure as a skip without a reason.
_NO_REASON = "upstream expects the test to fail, and it fails"
# The number of tests that the page names for each known cause; results.json contains all names.
_MAX_NAMES = 8


def text(rows: Sequence[Row], incomplete: Sequence[str]) -> str:
    """Return the text of TABLE.md. `incomplete` lists test files whose tests did not all run."""
    lines = [_HEAD, *counts(rows), *_uses(rows), *_missing(rows, incomplete)]
    lines += ["", "## Files", "", *counts(rows, by_file=True)]
    for verdict, title in _SECTIONS.items():
        names = collections.defaultdict(list)
        for row in rows:
            if row.verdict is verdict:
                names[row.reason.partition("\n")[0] or _NO_REASON].append(f"`{row.name}`")
        is_new = verdict is Verdict.FAILED
        if names:
            lines += ["", f"## {title}", "", "| cause | tests |", "|---|---|"]
            lines += [
                f"| {cell(reason)} | {_listed(tests, len(tests) if is_new else _MAX_NAMES)} |"
                for reason, tests in sorted(names.items(), key=lambda item: (-len(item[1]), item))
            ]
    return "\n".join(lines) + "\n"


def _listed(names: Sequence[str], limit: int) -> str:
    """Return the number of tests, and at most `limit` names in alphabetical order."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{len(names)}: {', '.join(sorted(names)[:limit])}{more}"


def counts(rows: Sequence[Row], *, by_file: bool = False) -> list[str]:
    """Return a table of test counts by area, with a total, or by file."""
    titles = ["tests", "apply", "passed", "", "of these on host"]
    titles += [verdict.value for verdict in _OTHERS]
    lines = [f"| {'file' if by_file else 'area'} | {' | '.join(titles)} |"]
    lines.append("|---" * (len(titles) + 1) + "|")
    groups: collections.defaultdict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        groups[row.file if by_file else row.area].append(row)
    lines += [_line(name, of_group) for name, of_group in groups.items()]
    return lines if by_file else [*lines, _line("all", rows)]


def on_host(rows: Sequence[Row]) -> list[Row]:
    """Return the passing tests that did not use tpu."""
    return [row for row in rows if row.verdict is Verdict.PASSED and row.use == device_use.HOST]


def _uses(rows: Sequence[Row]) -> list[str]:
    """Return a sentence with the number of passing tests that use tpu."""
    passed = [row for row in rows if row.verdict is Verdict.PASSED]
    used = sum(row.use == device_use.TPU for row in passed)
    unknown = sum(not row.use for row in passed)
    line = (
        f"Of the {len(passed)} passed tests, {used} use the device, and {len(on_host(rows))} never "
        "touch it."
    )
    return ["", f"{line} For {unknown}, this was not recorded." if unknown else line]


def _missing(rows: Sequence[Row], incomplete: Sequence[str]) -> list[str]:
    files = {row.file for row in rows}
    lines = []
    for title, names in (
        ("Not run", [file for file in catalogue.chosen([]) if file not in files]),
        ("Run in part", incomplete),
    ):
        if names:
            lines += ["", f"{title}: {', '.join(f'`{name}`' for name in names)}."]
    return lines


def _line(name: str, rows: Sequence[Row]) -> str:
    by_verdict = collections.Counter(row.verdict for row in rows)
    apply, passed = sum(row.applies for row in rows), by_verdict[Verdict.PASSED]
    part = f"{100 * passed / apply:.1f} %" if apply else ""
    numbers = [len(rows), apply, passed, part, _on_host_cell(rows)]
    numbers += [by_verdict[verdict] for verdict in _OTHERS]
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def _on_host_cell(rows: Sequence[Row]) -> str:
    unknown = any(row.verdict is Verdict.PASSED and not row.use for row in rows)
    count = len(on_host(rows))
    return (f"{count} + ?" if count else "?") if unknown else str(count)
