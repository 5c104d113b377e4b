# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from tests.conformance import exceptions, golden, page
from tests.conformance.exceptions import Entry, Exceptions
from tests.conformance.rows import CHECKS, DTYPES, Outcome, Row
from tests.conformance.sweep import tasks

UPDATE = "Run: ./bazelw run //tests/conformance:run -- --rows outcomes.jsonl --update"

GOOD = Row("add", "float32", "forward", Outcome.PASSED, 5, 5)
BAD = Row("mul", "float32", "out", Outcome.WRONG, 5, 3, "sample 1: off")
NONE = Row("mul", "bool", "inplace", Outcome.EMPTY)


def test_every_check_that_op_db_declares_is_in_the_golden() -> None:
    wanted = {key for task in tasks(["*"], DTYPES, CHECKS, (0, 1)) for key in task.keys}
    known = set(golden.read())
    assert wanted == known, f"{sorted(wanted ^ known)[:5]}. {UPDATE}"


def test_every_exception_has_a_reason_and_every_reason_an_exception() -> None:
    assert exceptions.load().faults(golden.read().values()) == []


def test_the_page_is_made_of_the_golden() -> None:
    text = page.page(golden.read(), exceptions.load())
    assert page.FILE.read_text(encoding="utf-8") == text, f"TABLE.md is another. {UPDATE}"


def test_rows_come_back_from_the_files(tmp_path: Path) -> None:
    golden.write([GOOD, NONE], tmp_path)
    golden.write([BAD], tmp_path)
    known = golden.read(tmp_path)
    assert list(known) == [GOOD.key, BAD.key, NONE.key]
    assert known[GOOD.key] == GOOD
    assert (known[BAD.key].outcome, known[BAD.key].passed) == (Outcome.WRONG, 3)
    assert not known[NONE.key].counts
    lines = (tmp_path / "float32.json").read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == ['"add": {"forward": "5/5"},', '"mul": {"out": "3/5 wrong"}']


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (GOOD, ""),
        (Row("add", "float32", "forward", Outcome.WRONG, 5, 4, "x"), "passes in the golden"),
        (Row("mul", "float32", "out", Outcome.PASSED, 5, 5), "wrong in the golden"),
        (Row("mul", "float32", "out", Outcome.PASSED, 2, 2), ""),
        (Row("sub", "float32", "out", Outcome.PASSED, 5, 5), "not in the golden"),
    ],
)
def test_surprises(row: Row, expected: str) -> None:
    found = golden.surprise(row, {GOOD.key: GOOD, BAD.key: BAD})
    assert found.endswith(expected)
    assert bool(found) is bool(expected)


def test_reasons() -> None:
    known = Exceptions((Entry("m*", "float32,bool", "out", "not there"),))
    assert known.reason(BAD) == "not there"
    assert known.faults([GOOD, BAD]) == []
    assert known.faults([GOOD]) == ["m* float32,bool out: passes. Take it out of exceptions.json"]
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
    assert "| add | +.... |  |  |  |  |  |  |" in text
    assert "| a\\|b |" in text
