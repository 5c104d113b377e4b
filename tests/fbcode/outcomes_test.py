# SPDX-License-Identifier: Apache-2.0
"""Test that a test's last line wins, and that a test with only a start line is unfinished."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.fbcode import outcomes
from tests.fbcode.outcomes import BEGUN, Ran
from tools.presubmit.results import Case, Outcome

_PASSED = Ran("a_test::TestA", "test_x_cpu", "cpu", Outcome.PASSED, seconds=0.5)
_BEGUN = Ran("a_test::TestA", "test_y_tpu", "", Outcome.FAILED, BEGUN)


def test_the_last_line_counts(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert outcomes.read(file) == {}
    skipped = Ran("a_test::TestA", "test_y_tpu", "tpu", Outcome.SKIPPED, "Only runs on cpu")
    outcomes.append(file, [_BEGUN, _PASSED])
    outcomes.append(file, [skipped])
    assert list(outcomes.read(file).values()) == [skipped, _PASSED]


def test_what_began_and_did_not_end(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    outcomes.append(file, [_PASSED, _BEGUN])
    outcomes.confirm(file, -11)
    results = outcomes.read(file)
    assert results[_PASSED.key] == _PASSED
    assert results[_BEGUN.key].reason == "ended its process with status -11"
    assert results[_BEGUN.key].outcome is Outcome.FAILED


def test_what_another_process_was_at_is_left(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    other = dataclasses.replace(_BEGUN, test="test_other")
    outcomes.append(file, [other])
    size = file.stat().st_size
    assert not outcomes.confirm(file, -9, size)
    outcomes.append(file, [_BEGUN])
    assert outcomes.confirm(file, -9, size)
    results = outcomes.read(file)
    assert results[other.key] == other
    assert results[_BEGUN.key].reason == "ended its process with status -9"


def test_a_case_has_the_reason_of_a_skip_alone() -> None:
    skipped = Ran("a_test", "test_z", "tpu", Outcome.SKIPPED, "why")
    assert skipped.case() == Case("a_test::test_z", Outcome.SKIPPED, "why", "tpu")
    assert _BEGUN.case() == Case("a_test::TestA::test_y_tpu", Outcome.FAILED, "", "")


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    outcomes.append(file, [_PASSED])
    with file.open("a", encoding="utf-8") as lines:
        lines.write('{"suite": "a_te\n')
    with pytest.raises(ValueError, match=r"results.jsonl:2: .*Remove the line"):
        outcomes.read(file)
