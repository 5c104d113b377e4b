# SPDX-License-Identifier: Apache-2.0
"""What does not pass, with the reason for each: exceptions.json, kept by hand."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.trial import Outcome, Trial

FILE = Path(__file__).with_name("exceptions.json")


@dataclass(frozen=True)
class Entry:
    """`op` and `dtype` are names or patterns."""

    op: str
    dtype: str
    reason: str

    def covers(self, trial: Trial) -> bool:
        return fnmatch.fnmatchcase(trial.op, self.op) and fnmatch.fnmatchcase(
            trial.dtype, self.dtype
        )


@dataclass(frozen=True)
class Exceptions:
    entries: tuple[Entry, ...]

    def reason(self, trial: Trial) -> str:
        return next((entry.reason for entry in self.entries if entry.covers(trial)), "")

    def surprise(self, trial: Trial) -> str:
        """Return what is not as the file says, or nothing."""
        known = self.reason(trial)
        if trial.outcome in (Outcome.PASSED, Outcome.EMPTY):
            exact = any(e.op == trial.op and e.dtype == trial.dtype for e in self.entries)
            if trial.outcome is Outcome.PASSED and exact:
                return f"{trial.op} {trial.dtype} passes. Take it out of {FILE.name}"
            return ""
        if known:
            return ""
        return (
            f"{trial.op} {trial.dtype} {trial.outcome.value}: {trial.message}. Fix it, or give the "
            f"reason in {FILE.name}"
        )


def load(path: Path = FILE) -> Exceptions:
    """Read the file. Raises ValueError, which names the entry, for one without a reason."""
    entries = []
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        if set(row) != {"op", "dtype", "reason"} or not row["reason"]:
            raise ValueError(f"{path}: entry {number}: expected op, dtype and reason, found {row}")
        entries.append(Entry(**row))
    return Exceptions(tuple(entries))
