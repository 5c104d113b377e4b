# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for the known failures of torch's tests, listed by hand in exceptions.json.

A test with an entry still runs. If it fails, it is reported as skipped, with the entry's reason. If
it passes, it is reported as failed, and the entry must be removed, unless the entry has `may_pass`
because the result depends on the machine. A test does not run if its entry has `ends_process`.
"""

from __future__ import annotations

import fnmatch
import functools
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("exceptions.json")


@dataclass(frozen=True)
class Entry:
    """A known failure. `tests` is a pattern for `file::Class::test`.

    `ends_process` means that the test would terminate the process, so it does not run. `may_pass`
    means that its result depends on the machine.
    """

    tests: str
    reason: str
    ends_process: bool = False
    may_pass: bool = False

    def covers(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.tests)


def parse(text: str, path: Path = FILE) -> list[Entry]:
    """Parse entries from JSON. Raises a ValueError if an entry has no reason or an unknown key."""
    entries = []
    for number, row in enumerate(json.loads(text)):
        if not {"tests", "reason"} <= set(row) <= {field.name for field in fields(Entry)}:
            raise ValueError(f"{path}: entry {number}: expected tests and reason, found {row}")
        if not row["reason"]:
            raise ValueError(f"{path}: entry {number}: give the reason why {row['tests']} fails")
        entries.append(Entry(**row))
    return entries


def reason(entries: Sequence[Entry], name: str) -> Entry | None:
    """Return the first entry whose pattern matches a test, or None."""
    return next((entry for entry in entries if entry.covers(name)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        entry = reason(_entries(), _name(item))
        if entry is not None and entry.ends_process:
            item.add_marker(pytest.mark.skip(reason=f"known: {entry.reason}"))


# `trylast` makes this hook the innermost wrapper, so plugins that write results see its report.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    entry = reason(_entries(), _name(item))
    if entry is None or entry.ends_process or (entry.may_pass and not report.failed):
        return report
    if report.failed:
        item.stash[_FAILED] = True
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: known: {entry.reason}")
    elif report.skipped:
        item.stash[_FAILED] = True
    elif report.when == "teardown" and not item.stash.get(_FAILED, False):
        report.outcome = "failed"
        report.longrepr = f"{_name(item)} passes. Remove '{entry.tests}' from {FILE.name}"
    return report


_FAILED = pytest.StashKey[bool]()


@functools.cache
def _entries() -> list[Entry]:
    # Read the file through the module loader, because the program may be packed.
    data = __spec__.loader.get_data(str(FILE))  # type: ignore[union-attr]
    return parse(data.decode("utf-8"))


def _name(item: pytest.Item) -> str:
    cls = getattr(item, "cls", None)
    return "::".join([item.path.stem, *([cls.__name__] if cls else []), item.name])
