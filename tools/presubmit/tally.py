# SPDX-License-Identifier: Apache-2.0
"""Count test cases: `python3 -m tools.presubmit.tally EVENTS.json ... [STEP=STATUS ...]`.

EVENTS.json is the file from `bazel test --build_event_json_file`. It lists the result files of that
run, including cached ones, so results of earlier runs are not counted. STEP=STATUS gives the exit
status of one of the caller's steps. A status other than 0 counts as a failure, except for status 3
of a test step: Bazel then reports failed tests, which are already counted. This module needs only
the standard library, because it must work even after a failed build.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import pathlib
import sys

from tools.presubmit.account import Account, room
from tools.presubmit.results import Attempt, Outcome, ResultsError, attempts, cases

_TESTS_FAILED = ("test=3", "full=3", "aot=3", "static=3")
# Environment variables that .bazelrc sets for every par_test. Each test's results record their
# values.
_EVERYWHERE = {"PYTORCH_TEST_FBCODE": "1"}


@dataclasses.dataclass
class Tally:
    """The counts of test cases, a line for each failure, and the data for the tables."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    account: Account = dataclasses.field(default_factory=Account)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {len(self.failures)} failed{skipped}"


def main(argv: collections.abc.Sequence[str]) -> int:
    """Print the tables, failures and a summary. Return 0 if a case passed and nothing failed."""
    files = [argument for argument in argv if argument.endswith(".json")]
    tally = Tally()
    for file in files:
        try:
            for attempt in attempts(pathlib.Path(file)):
                count(attempt, tally)
        except ResultsError as error:
            tally.failures.append(str(error))
    for step in argv:
        if step in files or (step in _TESTS_FAILED and tally.failures):
            continue
        name, _, status = step.rpartition("=")
        if status != "0":
            tally.failures.append(f"step '{name}' ended with {status}")
    if tally.passed or tally.skipped:
        print("\n".join(tally.account.lines()))
    for failure in tally.failures:
        print(f"failed: {failure}")
    print(tally)
    return 0 if tally.passed and not tally.failures else 1


def count(attempt: Attempt, tally: Tally) -> None:
    """Add the test cases of one attempt to the tally.

    A target also counts as a failure if it failed although none of its cases did (it crashed or
    timed out), if it passed without running any case, or if a par_test ran without the required
    environment variables.

    Raises:
        ResultsError: the attempt's result file cannot be read.
    """
    result = cases(attempt)
    before = len(tally.failures)
    for case in result.cases:
        if case.outcome is Outcome.FAILED:
            tally.failures.append(f"{attempt.label} {case.name}")
        elif case.outcome is Outcome.SKIPPED:
            tally.skipped += 1
        else:
            tally.passed += 1
    tally.account.add(room(attempt.label), result.cases)
    if attempt.status != "PASSED" and len(tally.failures) == before:
        tally.failures.append(f"{attempt.label} {attempt.status}")
    elif not result.cases:
        tally.failures.append(f"{attempt.label} ran no test case")
    elif attempt.by_pytest and attempt.status == "PASSED":
        for name, value in _EVERYWHERE.items():
            if result.properties.get(name) != value:
                tally.failures.append(f"{attempt.label} ran without {name}={value}; see .bazelrc")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
