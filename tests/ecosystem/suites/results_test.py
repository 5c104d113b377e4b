# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tests.ecosystem.suites import catalogue, results
from tests.ecosystem.suites.results import Failure, Result
from tests.fbcode.outcomes import Ran
from tools.presubmit.results import Outcome

_PASSED, _FAILED, _SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def _tests(**outcomes: Outcome) -> dict[tuple[str, str], Ran]:
    rows = [Ran("f.py", name, "", outcome, "Error: no") for name, outcome in outcomes.items()]
    return {row.key: row for row in rows}


def test_the_summary_compares_the_devices() -> None:
    row = {"library": "a", "version": "1", "sha256": "", "paths": []}
    result = results.summarize(
        catalogue.parse([row])["a"],
        _tests(a=_PASSED, b=_PASSED, c=_PASSED, d=_FAILED, e=_SKIPPED, f=_SKIPPED, g=_PASSED),
        _tests(a=_PASSED, b=_FAILED, c=_SKIPPED, d=_PASSED, e=_PASSED, f=_FAILED),
    )
    failures = (
        Failure("f.py::b", "Error: no"),
        Failure("f.py::f", "Error: no", skipped_on_cpu=True),
        Failure("f.py::g", "it was not collected"),
    )
    assert result == Result("a", "1", 4, 1, 2, 1, 1, 1, failures)


def test_a_suite_replaces_its_earlier_result(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    first = Result("b", "1", 1, 0, 0, 0, 0, 0, (Failure("t", "E"),))
    other = Result("a", "1", 1, 0, 0, 1, 0, 0, ())
    second = Result("b", "1", 1, 0, 0, 1, 0, 0, ())
    for row in (first, other, second):
        results.record(row, file)
    assert results.read(file) == [other, second]


def test_a_malformed_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text('[{"library": "a"}]')
    with pytest.raises(ValueError, match="it is not a list of results"):
        results.read(file)
