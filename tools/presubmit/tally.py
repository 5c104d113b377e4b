# SPDX-License-Identifier: Apache-2.0
"""Counts test cases: `python3 -m tools.presubmit.tally EVENTS.json ... [STEP=STATUS ...]`.

EVENTS.json is what a `bazel test --build_event_json_file` wrote: it names the result files of
that very run, cached ones included, so that what an earlier run left behind is not counted. Each
STEP of the caller with a STATUS other than 0 counts as one more failure; 3 of a step that tests is
Bazel's word for "tests failed", which are counted already. Standard library only, because it must
have a result even when nothing could be built.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import pathlib
import sys

from tools.presubmit.account import Account, room
from tools.presubmit.results import Attempt, Outcome, ResultsError, attempts, cases

_TESTS_FAILED = ("test=3", "full=3", "static=3")
# What every par_test must have run with, and says in its results: see .bazelrc.
_EVERYWHERE = {"PYTORCH_TEST_FBCODE": "1"}


@dataclasses.dataclass
class Tally:
    """Numbers of test cases, a line for each failure, and the tables."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    account: Account = dataclasses.field(default_factory=Account)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {len(self.failures)} failed{skipped}"


def main(argv: collections.abc.Sequence[str]) -> int:
    """Prints tables, failures, the summary line. Returns 0 if all that ran passed, and some ran."""
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
    """Adds the cases of one attempt.

    A target that failed though none of its cases did (it crashed, or ran out of time) is one
    failure; so is one that passed without having run a case, and a par_test whose results say that
    it ran without what all of them must have.

    Raises:
        ResultsError: its result file cannot be read.
    """
    found = cases(attempt)
    before = len(tally.failures)
    for case in found.cases:
        if case.outcome is Outcome.FAILED:
            tally.failures.append(f"{attempt.label} {case.name}")
        elif case.outcome is Outcome.SKIPPED:
            tally.skipped += 1
        else:
            tally.passed += 1
    tally.account.add(room(attempt.label), found.cases)
    if attempt.status != "PASSED" and len(tally.failures) == before:
        tally.failures.append(f"{attempt.label} {attempt.status}")
    elif not found.cases:
        tally.failures.append(f"{attempt.label} ran no test case")
    elif attempt.by_pytest and attempt.status == "PASSED":
        for name, value in _EVERYWHERE.items():
            if found.properties.get(name) != value:
                tally.failures.append(f"{attempt.label} ran without {name}={value}; see .bazelrc")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
