# SPDX-License-Identifier: Apache-2.0
"""Read exceptions.json, the hand-written list of rows that are known to fail, with the reasons.

A row is one check of an operator in one dtype.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FILE = Path(__file__).with_name("exceptions.json")


class Judged(Protocol):
    """A row with an outcome. This is a protocol, because tests/aot has its own row class."""

    @property
    def key(self) -> tuple[str, str, str]: ...

    @property
    def counts(self) -> bool: ...

    @property
    def good(self) -> bool: ...


@dataclass(frozen=True)
class Entry:
    """The reason why some rows fail.

    `op`, `dtype` and `check` select the rows by names or patterns, separated by commas.
    """

    op: str
    dtype: str
    check: str
    reason: str

    def covers(self, row: Judged) -> bool:
        pairs = zip(row.key, (self.op, self.dtype, self.check), strict=True)
        return all(
            any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))
            for name, patterns in pairs
        )


@dataclass(frozen=True)
class Exceptions:
    entries: tuple[Entry, ...]

    def reason(self, row: Judged) -> str:
        return next((entry.reason for entry in self.entries if entry.covers(row)), "")

    def faults(self, rows: Iterable[Judged]) -> list[str]:
        """Return an error for each failing row without an entry, and for each obsolete entry.

        An entry is obsolete if it covers no failing row.
        """
        failing = [row for row in rows if row.counts and not row.good]
        missing = [
            f"{row}: give the reason in {FILE.name}" for row in failing if not self.reason(row)
        ]
        needless = [
            f"{entry.op} {entry.dtype} {entry.check}: passes. Remove it from {FILE.name}"
            for entry in self.entries
            if not any(entry.covers(row) for row in failing)
        ]
        return missing + needless


def load(path: Path = FILE) -> Exceptions:
    """Read `path`. Raises a ValueError that names the first entry with a missing or empty field."""
    entries = []
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        if set(row) != {"op", "dtype", "check", "reason"} or not all(row.values()):
            raise ValueError(
                f"{path}: entry {number}: expected op, dtype, check and reason, found {row}"
            )
        entries.append(Entry(**row))
    return Exceptions(tuple(entries))
