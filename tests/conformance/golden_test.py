# SPDX-License-Identifier: Apache-2.0

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import exceptions, golden, page
from tests.conformance.exceptions import Entry, Exceptions
from tests.conformance.rows import CHECKS, DTYPES, Outcome, Row
from tests.conformance.sweep import tasks

UPDATE = "Run: ./bazelw run //tests/conformance:run -- --rows outcomes.jsonl --update"

# The golden files must cover at least this many samples of each row, unless op_db has fewer.
LEAST = 100

GOOD = Row("add", "float32", "forward", Outcome.PASSED, 5, 5, "", 5, 5)
BAD = Row("mul", "float32", "out", Outcome.WRONG, 4, 2, "sample 1: off", 5, 11, 3)
NONE = Row("mul", "bool", "inplace", Outcome.EMPTY, total=2)


def test_every_check_that_op_db_declares_is_in_the_golden() -> None:
    declared = {key for task in tasks(["*"], DTYPES, CHECKS, (0, 1)) for key in task.keys}
    known = set(golden.read())
    assert declared == known, f"{sorted(declared ^ known)[:5]}. {UPDATE}"


def test_every_exception_has_a_reason_and_every_reason_an_exception() -> None:
    assert exceptions.load().faults(golden.read().values()) == []


def test_the_page_is_made_of_the_golden() -> None:
    text = page.page(golden.read(), exceptions.load())
    assert page.FILE.read_text(encoding="utf-8") == text, f"TABLE.md is out of date. {UPDATE}"


def test_far_more_than_the_gate_runs_was_run_of_float32_forward() -> None:
    rows = [row for row in golden.read().values() if row.dtype == "float32"]
    forward = [row for row in rows if row.check in ("forward", "strides")]
    short = [row for row in forward if row.taken < min(row.total, LEAST) and not row.ended]
    assert forward
    assert not short, f"{short[0]}. {UPDATE}"


def test_rows_come_back_from_the_files(tmp_path: Path) -> None:
    golden.write([GOOD, NONE], tmp_path)
    golden.write([BAD], tmp_path)
    known = golden.read(tmp_path)
    assert list(known) == [GOOD.key, BAD.key, NONE.key]
    assert known[GOOD.key] == GOOD
    assert known[BAD.key] == replace(BAD, message="")
    assert known[NONE.key] == NONE
    lines = (tmp_path / "float32.json").read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == [
        '"add": {"forward": "5/5"},',
        '"mul": {"out": "2/4 of 5/11 wrong at 3"}',
    ]


def test_a_cell_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bool.json").write_text('{"add": {"forward": "many"}}')
    with pytest.raises(ValueError, match="add bool forward: 'many'. Write it again with --update"):
        golden.read(tmp_path)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (GOOD, ""),
        (replace(GOOD, outcome=Outcome.WRONG, passed=4, first=2), "passes in the golden"),
        (BAD, ""),
        (replace(BAD, first=1), "passes in the golden"),
        (replace(BAD, outcome=Outcome.PASSED, first=None), "wrong in the golden"),
        (replace(BAD, taken=8, first=6), "wrong in the golden"),
        (replace(BAD, outcome=Outcome.PASSED, taken=3, first=None), ""),
        (Row("sub", "float32", "out", Outcome.PASSED, 5, 5), "not in the golden"),
    ],
)
def test_surprises(row: Row, expected: str) -> None:
    message = golden.surprise(row, {GOOD.key: GOOD, BAD.key: BAD})
    assert message.endswith(expected)
    assert bool(message) is bool(expected)


def test_reasons() -> None:
    known = Exceptions((Entry("m*", "float32,bool", "out", "not there"),))
    assert known.reason(BAD) == "not there"
    assert known.faults([GOOD, BAD]) == []
    assert known.faults([GOOD]) == ["m* float32,bool out: passes. Remove it from exceptions.json"]
    assert "give the reason" in Exceptions(()).faults([BAD])[0]


def test_an_exception_without_a_reason_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "exceptions.json"
    file.write_text('[{"op": "add", "dtype": "*", "check": "*", "reason": ""}]')
    with pytest.raises(ValueError, match="entry 0: expected op, dtype, check and reason"):
        exceptions.load(file)


def test_the_page_says_what_passes_and_why_not() -> None:
    known = Exceptions((Entry("mul", "*", "out", "a|b"),))
    text = page.page({row.key: row for row in (GOOD, BAD, NONE)}, known)
    assert "| float32, forward | 1 | 1 | 100.0 % |" in text
    assert "| operator x dtype x check | 1 | 2 | 50.0 % |" in text
    assert "10 of op_db's 16 samples were run. All samples were run for 1 of the 2\n" in text
    assert f"| add | +....... 5 |{'  |' * len(DTYPES)}" in text
    bad = {BAD.key: BAD, ("mul", "float32", "forward"): replace(GOOD, op="mul", taken=4)}
    assert "| mul | p..x.... 4of5 5of11 |" in page.page(bad, known)
    assert "| a\\|b |" in text
