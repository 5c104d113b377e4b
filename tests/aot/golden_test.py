# SPDX-License-Identifier: Apache-2.0
"""Test that TABLE.md and exceptions.json match the golden files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.aot import golden, page, subjects
from tests.aot.rows import CHECKS, DTYPES, Case, Outcome, Row
from tests.conformance import exceptions
from tests.conformance.exceptions import Entry, Exceptions

UPDATE = "Run: ./bazelw run //tests/aot:run -- --work /tmp/aot --update"

GOOD = Row(Case("add", "float32", "forward"), "v5e", Outcome.COMPILED, 5, 5)
BAD = Row(Case("svd", "bool", "backward"), "v6e", Outcome.ABORTED, 4, 2, 3, "died")
NONE = Row(Case("add", "bool", "forward"), "v5e", Outcome.EMPTY)


@pytest.mark.full
def test_the_golden_has_existing_cases_only() -> None:
    known = {case for _, case in golden.read()}
    assert known
    unknown = known - set(subjects.cases(["*"], DTYPES, CHECKS))
    assert not unknown, f"{sorted(unknown)[:5]}. {UPDATE}"


def test_every_operator_is_in_the_golden_in_float32() -> None:
    known = {case for chip, case in golden.read() if chip == "v5e"}
    missing = set(subjects.cases(["*"], ["float32"], ["forward", "kernel", "step"])) - known
    assert not missing, f"{sorted(missing)[:5]}. {UPDATE}"


def test_every_failure_has_a_reason_and_every_reason_a_failure() -> None:
    assert _reasons().faults(golden.read().values()) == []


def test_the_page_is_made_of_the_golden() -> None:
    text = page.page(golden.read(), _reasons())
    assert page.FILE.read_text(encoding="utf-8") == text, f"TABLE.md is out of date. {UPDATE}"


def test_rows_come_back_from_the_files(tmp_path: Path) -> None:
    golden.write([GOOD, NONE], tmp_path)
    golden.write([BAD], tmp_path)
    known = golden.read(tmp_path)
    assert list(known.values()) == [GOOD, NONE, replace(BAD, message="")]
    assert (tmp_path / "v5e.json").read_text(encoding="utf-8").splitlines()[1] == (
        '"add": {"float32 forward": "5/5", "bool forward": "0/0"}'
    )
    assert '"svd": {"bool backward": "2/4 aborted at 3"}' in (tmp_path / "v6e.json").read_text()


def test_a_cell_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v5e.json").write_text('{"add": {"bool forward": "many"}}')
    with pytest.raises(ValueError, match="v5e add bool forward: 'many'. Write it again"):
        golden.read(tmp_path)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (GOOD, ""),
        (BAD, ""),
        (replace(GOOD, outcome=Outcome.FAILED, compiled=4, first=2), "5/5 in the golden"),
        (replace(BAD, first=1), "2/4 aborted at 3 in the golden"),
        (replace(GOOD, chip="v6e"), "not in the golden"),
    ],
)
def test_surprises(row: Row, expected: str) -> None:
    message = golden.surprise(row, {(known.chip, known.case): known for known in (GOOD, BAD)})
    assert message.endswith(expected)
    assert bool(message) is bool(expected)


def test_the_page_counts_outcomes_and_gives_reasons() -> None:
    rows = [GOOD, NONE, BAD, replace(BAD, chip="v5e"), replace(GOOD, case=BAD.case, chip="x")]
    reasons = Exceptions((Entry("svd", "*", "*", "a|b"),))
    text = page.page({(row.chip, row.case): row for row in rows}, reasons)
    assert "| v5e | forward | 1 of 1 |  |  |  |  |" in text
    assert "| v6e | backward |  |  |  | 0 of 1, 1 aborted |  |" in text
    assert "| svd | backward | bool | v5e, v6e | aborted, 2/4 | a\\|b |" in text
    assert page.summary(rows).splitlines()[0] == "v5e float32 forward: 1 of 1"


def _reasons() -> Exceptions:
    return exceptions.load(page.FILE.with_name("exceptions.json"))
