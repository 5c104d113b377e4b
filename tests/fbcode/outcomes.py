# SPDX-License-Identifier: Apache-2.0
"""The results file of a run. Each test has a line for its start and a line for its end."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tools.presubmit.account import Account
from tools.presubmit.results import Case, Outcome

# The prefix of the skip reason for a test that ran and failed as expected.
KNOWN = "known: "

# The reason in the line that is written before a test runs. If no other line follows, the run was
# killed or the test ended its process. In the second case, `confirm` adds a line that says so.
BEGUN = "begun"


@dataclasses.dataclass(frozen=True)
class Ran:
    """The outcome of a test.

    `suite` is its file and class, without the device that torch appends to the class. `reason` says
    why it was skipped, or is the first line of the error. `seconds` is wall-clock time.
    """

    suite: str
    test: str
    device: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        return self.suite, self.test

    @property
    def is_known(self) -> bool:
        return self.outcome is Outcome.SKIPPED and self.reason.startswith(KNOWN)

    def case(self) -> Case:
        """Return the outcome in the form that `tools/presubmit/account.py` counts."""
        reason = self.reason if self.outcome is Outcome.SKIPPED else ""
        return Case(f"{self.suite}::{self.test}", self.outcome, reason, self.device)


def read(file: Path, since: int = 0) -> dict[tuple[str, str], Ran]:
    """Return each test's last line in the file, without the first `since` bytes of the file.

    Returns an empty dict if the file does not exist. Raises ValueError, with the line number, for a
    malformed line.
    """
    if not file.exists():
        return {}
    rows = {}
    text = file.read_bytes()
    before = text.count(b"\n", 0, since)
    lines = text[since:].decode().splitlines()
    for number, line in enumerate(lines, start=before + 1):
        try:
            row = json.loads(line)
            ran = Ran(**{**row, "outcome": Outcome(row["outcome"])})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}:{number}: {error}. Remove the line") from error
        rows[ran.key] = ran
    return rows


def append(file: Path, rows: Iterable[Ran]) -> None:
    """Append lines in a single write, so that several processes can share the file."""
    lines = [
        json.dumps({**dataclasses.asdict(row), "outcome": row.outcome.value}) + "\n" for row in rows
    ]
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, "".join(lines).encode())
    finally:
        os.close(descriptor)


def confirm(file: Path, status: int, since: int = 0) -> bool:
    """Record for unfinished tests that they ended their process with `status` (as in `subprocess`).

    `since` is the size of the file when that process began, so that tests of other processes are
    ignored. Returns whether there were unfinished tests.
    """
    begun = [row for row in read(file, since).values() if row.reason == BEGUN]
    reason = f"ended its process with status {status}"
    append(file, [dataclasses.replace(row, reason=reason) for row in begun])
    return bool(begun)


def announce(results: Sequence[Ran], group: Callable[[Ran], str]) -> bool:
    """Print counts of tests per group, then failures; return whether tests ran and all passed."""
    account = Account()
    for ran in results:
        account.add(group(ran), [ran.case()])
    print("\n".join(account.lines()))
    failed = [ran for ran in results if ran.outcome is Outcome.FAILED]
    for ran in failed:
        print(f"failed: {ran.suite}::{ran.test}: {ran.reason}")
    return bool(results) and not failed
