# SPDX-License-Identifier: Apache-2.0
"""Generate SUITES.md: `python -m tests.ecosystem.suites.page`. run.py also does this."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.ecosystem.suites import catalogue, results
from tests.ecosystem.suites.catalogue import Note, Suite
from tests.ecosystem.suites.results import Result
from tests.fbcode.page import cell, put

FILE = Path(__file__).with_name("SUITES.md")
UNEXPLAINED = "not explained"

_HEAD = """# Libraries' own tests on tpu

Written by `tests/ecosystem/suites/run.py` from `results.json` and `suites.json`; see the
[README](README.md). The tests run on tpu in eager strict mode. The percentage is the share of passed
tests among those that pass on the CPU and that the suite does not skip on tpu. The last two columns
count the tests that a suite skips on the CPU, because they need an accelerator.
"""


def write(rows: Iterable[Result], file: Path = FILE) -> None:
    """Write SUITES.md atomically."""
    put(text(rows, catalogue.load()), file)


def text(rows: Iterable[Result], suites: Mapping[str, Suite]) -> str:
    """Return the text of SUITES.md."""
    rows = [row for row in rows if row.library in suites]
    lines = [
        _HEAD,
        "| library | version | tests | pass on the CPU | skipped on tpu | pass on tpu | | more that pass | more that fail |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|", *map(_row, rows), _total(rows)]
    for row in rows:
        lines += _failures(row, suites[row.library])
    lines += [
        "",
        "## Tests that run on no device",
        "",
        "| library | tests | reason |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | `{note.tests}` | {cell(note.reason)} |"
        for name, suite in sorted(suites.items())
        for note in suite.excluded
    ]
    return "\n".join(lines) + "\n"


def _row(row: Result) -> str:
    tests = row.cpu_passed + row.cpu_failed + row.cpu_skipped
    counts = [tests, row.cpu_passed, row.tpu_skipped, row.tpu_passed]
    more = [row.more_passed, sum(failure.skipped_on_cpu for failure in row.failures)]
    cells = [row.library, row.version, *(f"{count:,}" for count in counts), _share(row)]
    cells += [f"{count:,}" for count in more]
    return f"| {' | '.join(cells)} |"


def _total(rows: list[Result]) -> str:
    names = ("cpu_passed", "cpu_failed", "cpu_skipped", "tpu_passed", "tpu_skipped", "more_passed")
    sums = {name: sum(getattr(row, name) for row in rows) for name in names}
    failures = tuple(failure for row in rows for failure in row.failures)
    return _row(Result("all", "", **sums, failures=failures))


def _share(row: Result) -> str:
    ran = row.cpu_passed - row.tpu_skipped
    return f"{100 * row.tpu_passed / ran:.1f} %" if ran else ""


def _failures(row: Result, suite: Suite) -> list[str]:
    """Return the lines of a section that groups a suite's failures by cause.

    Return [] if no test failed.
    """
    if not row.failures:
        return []
    groups = collections.defaultdict(list)
    for failure in row.failures:
        cause = catalogue.reason(suite.causes, failure.test) or UNEXPLAINED
        groups[cause].append(failure)
    lines = [
        "",
        f"## Failures of {row.library}",
        "",
        "| cause | tests | an error |",
        "|---|---|---|",
    ]
    for cause, failures in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        names = ", ".join(f"`{failure.test}`" for failure in failures)
        lines.append(
            f"| {cell(cause)} | {len(failures)}: {cell(names)} | {cell(failures[0].error)} |"
        )
    return lines


def unused(notes: Iterable[Note], tests: Iterable[str]) -> list[str]:
    """Return the test patterns in `notes` that match none of the tests."""
    known = list(tests)
    return [note.tests for note in notes if not any(note.covers(test) for test in known)]


if __name__ == "__main__":
    write(results.read())
