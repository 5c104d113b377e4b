# SPDX-License-Identifier: Apache-2.0
"""The known failures. exceptions.json, which is maintained by hand, gives a reason for each."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.upstream.row import Outcome, Result, Row

FILE = Path(__file__).with_name("exceptions.json")


@dataclass(frozen=True)
class Entry:
    """A reason why rows (see row.py) fail. `rows` is a pattern that is matched against str(row)."""

    rows: str
    reason: str

    def covers(self, row: Row) -> bool:
        return fnmatch.fnmatchcase(str(row), self.rows)


class Exceptions:
    """The entries of exceptions.json."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)

    def reason(self, row: Row) -> str:
        """Return the reason why a row may fail, or an empty string."""
        return next((entry.reason for entry in self.entries if entry.covers(row)), "")

    def surprises(self, results: Iterable[Result]) -> list[str]:
        """Return an error for each failed row without an entry, and for each obsolete entry.

        An entry is obsolete if at least one of its rows ran and all rows that ran passed.
        """
        results = [result for result in results if result.outcome is not Outcome.EMPTY]
        failed = [result for result in results if result.outcome is not Outcome.PASSED]
        errors = [
            f"{result.row} {result.outcome.value}: {result.message}. Fix it, or give the reason in "
            f"{FILE.name}"
            for result in failed
            if not self.reason(result.row)
        ]
        for entry in self.entries:
            covered = [result for result in results if entry.covers(result.row)]
            if covered and all(result.outcome is Outcome.PASSED for result in covered):
                errors.append(f"{entry.rows}: passes now. Remove it from {FILE.name}")
        return errors


def load(path: Path = FILE) -> Exceptions:
    """Read a file of exceptions. Raises a ValueError if an entry lacks `rows` or `reason`."""
    entries = []
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        if set(row) != {"rows", "reason"} or not row["reason"]:
            raise ValueError(f"{path}: entry {number}: expected rows and reason, found {row}")
        entries.append(Entry(**row))
    return Exceptions(entries)
