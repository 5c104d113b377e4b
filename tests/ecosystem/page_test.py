# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ecosystem import locked, page, results, source
from tests.ecosystem.case import table
from tests.ecosystem.results import Row, Verdict

_ROWS = results.read()


def test_the_page_matches_the_results() -> None:
    assert page.FILE.read_text() == page.text(_ROWS), "run python -m tests.ecosystem.run"


def test_each_row_belongs_to_a_case_and_a_locked_version() -> None:
    for row in _ROWS:
        assert row.mode in table()[f"{row.library}/{row.case}"].modes
        assert row.version == locked.version(row.library)
        assert bool(row.cause) == (row.verdict is not Verdict.PASSED)
    assert len({row.key for row in _ROWS}) == len(_ROWS)


def test_each_library_of_the_groups_has_a_case() -> None:
    groups = set(locked.groups()) - {locked.SUITES}
    libraries = {key for group in groups for key in locked.libraries(group)}
    assert {row.library for row in table().values()} == libraries


def test_the_page_counts_by_mode_and_escapes_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "shown", lambda row: row.verdict)
    rows = [
        Row("a", "1", "x", "strict", Verdict.PASSED),
        Row("a", "1", "x", "fused", Verdict.FAILED, "Error: <x> | `y`"),
    ]
    text = page.text(rows)
    assert "1 libraries, 1 cases, 2 rows." in text
    assert "| mode | rows | passed | failed | passed, % |" in text
    assert "| all | 2 | 1 | 1 | 50.0 |" in text
    assert "| a | 1 | x | fused | failed | Error: \\<x> \\| 'y' |" in text


def test_a_row_of_older_code_or_of_a_removed_case_is_stale() -> None:
    case = next(iter(table().values()))
    row = Row(case.library, "1", case.name, "strict", Verdict.PASSED, "", source.digest(case))
    rows = [row, replace(row, source="", mode="fused"), replace(row, case="removed")]
    assert [page.shown(row) for row in rows] == ["passed", "stale", "stale"]
    text = page.text(rows)
    assert "| mode | rows | passed | stale | passed, % |" in text
    assert "| all | 3 | 1 | 2 | 33.3 |" in text
