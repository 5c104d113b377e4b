# SPDX-License-Identifier: Apache-2.0
"""Read and write a run's results file: each test has a line for its start and one for its end."""

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

# Before each test, a run appends a line to its results file, with BEGUN as the `reason`. If no
# other line follows for the test, the run was killed, or the test ended its process and `confirm`
# will add a line for it.
BEGUN = "begun"


@dataclasses.dataclass(frozen=True)
class Ran:
    """The outcome of a test.

    `suite` is the file and class, without the device name that torch appends to the class.
    `reason` says why the test was skipped, or is the first line of its error. `seconds` is
    wall-clock time.
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
        """Return the outcome as a `Case`, which tools/presubmit/account.py counts."""
        reason = self.reason if self.outcome is Outcome.SKIPPED else ""
        return Case(f"{self.suite}::{self.test}", self.outcome, reason, self.device)


def read(file: Path, since: int = 0) -> dict[tuple[str, str], Ran]:
    """Return the last line for each test in `file`, ignoring the first `since` bytes.

    Return an empty dict if the file does not exist. Raises a ValueError that names the line if a
    line is malformed.
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
    """Record that the unfinished tests' process exited with `status`, as returned by subprocess.

    `since` is the size of the file when that process started, so that tests from earlier processes
    are ignored. Return whether there were unfinished tests.
    """
    begun = [row for row in read(file, since).values() if row.reason == BEGUN]
    reason = f"ended its process with status {status}"
    append(file, [dataclasses.replace(row, reason=reason) for row in begun])
    return bool(begun)


def announce(results: Sequence[Ran], group: Callable[[Ran], str]) -> bool:
    """Print the counts of tests per group, and the failures.

    Return whether there is at least one test and no test failed.
    """
    account = Account()
    for ran in results:
        account.add(group(ran), [ran.case()])
    print("\n".join(account.lines()))
    failed = [ran for ran in results if ran.outcome is Outcome.FAILED]
    for ran in failed:
        print(f"failed: {ran.suite}::{ran.test}: {ran.reason}")
    return bool(results) and not failed
