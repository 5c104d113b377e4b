# SPDX-License-Identifier: Apache-2.0
"""Test the explanation of a 3-way merge: how upstream changed the lines that a hunk covers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.importer.engine.evidence import upstream_diff
from tools.importer.engine.merge import merge_texts
from tools.importer.engine.outcome import Outcome
from tools.importer.engine.scenario import make_scenario, over
from tools.importer.engine.text import Text
from tools.importer.unified import Hunk

_BASE = list("abcdefgh")


def _diff(start: int, stop: int, new: list[str], base: list[str] = _BASE) -> str:
    old, ours = (Text.of("".join(f"{x}\n" for x in lines).encode()) for lines in (base, new))
    assert old.lines is not None
    lines = tuple(old.lines[start:stop])
    hunk = Hunk(start + 1 if lines else start, lines, lines, 0)
    return upstream_diff(hunk, ours, merge_texts(old, ours, old).upstream)


@pytest.mark.parametrize(
    ("new", "diff"),
    [
        ("a b c d e f g h", ""),
        ("x a b c d e f g h", ""),
        ("a b x c d e f g h", ""),  # an insertion before the hunk
        ("a b c d e f x g h", ""),  # an insertion after the hunk
        ("a b c X e f g h", "@@ -3,4 +3,4 @@ upstream's change\n c\n-d\n+X\n e\n f\n"),
        ("x y a b c d e Z f g h", "@@ -3,4 +5,5 @@ upstream's change\n c\n d\n e\n+Z\n f\n"),
        ("a X Y e f g h", "@@ -3,4 +2,4 @@ upstream's change\n-c\n-d\n+X\n+Y\n e\n f\n"),
        ("a b c d X", "@@ -3,4 +3,3 @@ upstream's change\n c\n d\n-e\n-f\n+X\n"),
        ("a b g h", "@@ -3,4 +2,0 @@ upstream's change\n-c\n-d\n-e\n-f\n"),
    ],
)
def test_the_change_inside_a_hunk(new: str, diff: str) -> None:
    assert _diff(2, 6, new.split()) == diff


def test_the_result_of_a_3_way_merge_has_the_diff_of_each_changed_hunk(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(60)]
    text = "".join(lines)
    patched = text.replace("line 20\n", "line twenty\n").replace("line 40\n", "line forty\n")
    scenario = make_scenario(tmp_path, {"a": text}, {"p": {"a": patched}})
    carried = scenario.to(over(scenario.old, {"a": text.replace("line 42\n", "other\n")}))
    (result,) = carried.results
    (file,) = result.files
    assert file.outcome is Outcome.THREE_WAY
    context = " line 37\n line 38\n line 39\n line 40\n line 41\n"
    head = "@@ -38,7 +38,7 @@ upstream's change\n"
    assert file.inner == f"{head}{context}-line 42\n+other\n line 43\n"


def test_a_long_replacement_is_cut() -> None:
    diff = _diff(2, 6, ["a", "b", *(f"n{number}" for number in range(100)), "e", "f", "g", "h"])
    assert "+n39\n+... and 60 more lines\n e\n" in diff
    assert "n40" not in diff


@given(
    st.integers(0, 8),
    st.integers(0, 8),
    st.lists(st.sampled_from("abcdefghxyz"), max_size=12),
)
def test_the_diff_has_all_lines_of_the_hunk_and_only_lines_of_upstream(
    first: int, second: int, new: list[str]
) -> None:
    start, stop = min(first, second), max(first, second)
    _, *rows = _diff(start, stop, new).splitlines() or [""]
    if rows:
        assert [row[1:] for row in rows if row[0] in " -"] == _BASE[start:stop]
        shown = [row[1:] for row in rows if row[0] in " +"]
        assert any(new[i : i + len(shown)] == shown for i in range(len(new) + 1))
        assert any(row[0] in "+-" for row in rows)
