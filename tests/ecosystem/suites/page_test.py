# SPDX-License-Identifier: Apache-2.0
"""Test that suites.json, results.json and SUITES.md agree."""

from __future__ import annotations

import pytest

from tests.ecosystem import locked
from tests.ecosystem.suites import catalogue, page, results, tree
from tests.ecosystem.suites.results import Failure, Result

_SUITES = catalogue.load()
_RESULTS = results.read()


def test_the_page_matches_the_results() -> None:
    text = page.text(_RESULTS, _SUITES)
    assert page.FILE.read_text() == text, "run python -m tests.ecosystem.suites.page"


def test_each_suite_has_the_locked_version_and_a_result_of_it() -> None:
    versions = {
        name: locked.version(suite.library.replace("-", "_")) for name, suite in _SUITES.items()
    }
    assert {name: suite.version for name, suite in _SUITES.items()} == versions
    assert {row.library: row.version for row in _RESULTS} == versions


def test_each_failure_has_a_cause_and_each_cause_a_failure() -> None:
    for row in _RESULTS:
        causes = _SUITES[row.library].causes
        tests = [failure.test for failure in row.failures]
        assert [test for test in tests if not catalogue.reason(causes, test)] == []
        assert page.unused(causes, tests) == []


def test_each_overlay_belongs_to_a_suite() -> None:
    assert {path.name for path in tree.OVERLAY.iterdir()} <= {
        suite.library for suite in _SUITES.values()
    }


def test_at_least_95_percent_of_the_tests_that_pass_on_the_cpu_pass_on_tpu() -> None:
    for row in _RESULTS:
        assert row.tpu_passed >= 0.95 * (row.cpu_passed - row.tpu_skipped), row.library


def test_the_page_groups_failures_by_cause() -> None:
    suites = catalogue.parse(
        [
            {
                "library": "a",
                "version": "1",
                "sha256": "",
                "paths": [],
                "excluded": [{"tests": "t::slow*", "reason": "takes an hour"}],
                "causes": [{"tests": "t::x*", "reason": "calls <numpy>"}],
            }
        ]
    )
    failures = (Failure("t::x1", "E | 1"), Failure("t::x2", "E"), Failure("t::y", "F", True))
    text = page.text([Result("a", "1", 1000, 2, 3, 997, 1, 4, failures)], suites)
    assert "| a | 1 | 1,005 | 1,000 | 1 | 997 | 99.8 % | 4 | 1 |" in text
    assert "| all |  | 1,005 | 1,000 | 1 | 997 | 99.8 % | 4 | 1 |" in text
    assert "| calls \\<numpy> | 2: `t::x1`, `t::x2` | E \\| 1 |" in text
    assert f"| {page.UNEXPLAINED} | 1: `t::y` | F |" in text
    assert "| a | `t::slow*` | takes an hour |" in text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"library": "a"}, "a: .*missing"),
        ({"library": "a", "color": "red"}, "a: .*unexpected"),
        (
            {
                "library": "a", "version": "1", "sha256": "", "paths": [],
                "causes": [{"tests": "x", "reason": ""}],
            },
            "a: give a reason for x",
        ),
    ],
)  # fmt: skip
def test_a_malformed_suite_is_an_error(row: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        catalogue.parse([row])


def test_a_suite_may_not_occur_twice() -> None:
    row = {"library": "a", "version": "1", "sha256": "", "paths": []}
    with pytest.raises(ValueError, match="a is there twice"):
        catalogue.parse([row, row])
