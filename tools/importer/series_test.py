# SPDX-License-Identifier: Apache-2.0
"""Test `load_series`: listed order, required header keys, and one-line errors."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tools.importer.series import (
    REQUIRED,
    TEMPLATE,
    Budget,
    SeriesError,
    load_series,
    overdue,
    parse_header,
)

_HEADER = """\
Subject: Say new where upstream says old
Owner: packaging
Reason: build
Upstream: remove when the test passes without it
Extension-point-considered: none: the word is a constant
Test: x_test.py::test_word
"""
_DIFF = """
diff --git a/x b/x
--- a/x
+++ b/x
@@ -1 +1 @@
-old
+new
"""


def _write(root: Path, series: str, **patches: str) -> Path:
    (root / "series").write_text(series)
    for name, text in patches.items():
        (root / f"{name}.patch").write_text(text)
    return root


def test_order_comments_and_header(tmp_path: Path) -> None:
    root = _write(
        tmp_path, "# why\nb.patch\n\na.patch  # after b\n", a=_HEADER + _DIFF, b=_HEADER + _DIFF
    )
    series = load_series(root)
    assert [(patch.name, patch.line) for patch in series.patches] == [
        ("b.patch", 2),
        ("a.patch", 4),
    ]
    assert series.patches[0].header["Owner"] == "packaging"
    assert series.patches[0].added == 1


def test_the_digest_depends_on_order_and_bytes(tmp_path: Path) -> None:
    root = _write(tmp_path, "a.patch\nb.patch\n", a=_HEADER + _DIFF, b=_HEADER + _DIFF)
    first = load_series(root).digest
    _write(root, "# a comment changes nothing\na.patch\nb.patch\n")
    assert load_series(root).digest == first
    _write(root, "b.patch\na.patch\n")
    swapped = load_series(root).digest
    _write(root, "a.patch\nb.patch\n", b=_HEADER + "\nProse.\n" + _DIFF)
    assert len({first, swapped, load_series(root).digest}) == 3


def test_continued_header_lines_are_joined() -> None:
    header = parse_header(_HEADER + "Expires: 2030-01-31\n" + "\nProse: not a header\n", "p")
    assert header["Expires"] == "2030-01-31"
    assert "Prose" not in header
    folded = _HEADER.replace("Upstream: remove", "Upstream:\n  remove\n ")
    assert parse_header(folded, "p")["Upstream"] == "remove when the test passes without it"


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (
            "fix_worde.patch\n",
            r"series:1: 'fix_worde.patch' is not a patch name. Use <subject>.patch",
        ),
        (
            "\nfix-worde.patch\n",
            r"series:2: no file 'fix-worde.patch'. Did you mean 'fix-word.patch'",
        ),
        ("zzz.patch\nfix-word.patch\n", r"series:1: no file 'zzz.patch'. Fix the line or add"),
        ("", r"fix-word.patch: not listed in .*series. Add a line there or delete it"),
        (
            "fix-word.patch\nfix-word.patch\n",
            r"series:2: 'fix-word.patch' is also on line 1. Remove",
        ),
    ],
)
def test_faults_of_the_order(tmp_path: Path, series: str, message: str) -> None:
    (tmp_path / "fix-word.patch").write_text(_HEADER + _DIFF)
    _write(tmp_path, series)
    with pytest.raises(SeriesError, match=message) as raised:
        load_series(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_directory_without_an_order(tmp_path: Path) -> None:
    with pytest.raises(SeriesError, match="no such file. A series directory needs it"):
        load_series(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_HEADER.replace("Owner: packaging\n", "") + _DIFF, "header 'Owner' is missing"),
        (_HEADER.replace("packaging", "") + _DIFF, "header 'Owner' is missing"),
        (
            _HEADER.replace("Owner", "Owners") + _DIFF,
            ":2: unknown header 'Owners'. Did you mean 'Owner'",
        ),
        (_HEADER + "Owner: me\n" + _DIFF, ":7: header 'Owner' appears twice"),
        (
            _HEADER.replace("build", "taste") + _DIFF,
            "Reason is 'taste'. Use one of: upstream, build",
        ),
        (_HEADER + "Expires: soon\n" + _DIFF, "Expires is 'soon'. Give a date"),
        (_HEADER + "Budget: few\n" + _DIFF, "Budget is 'few'. Give a number"),
        (_HEADER + "Budget: 1 lines 2 files\n" + _DIFF, "or both as in '12 lines, 2 files'"),
        (_HEADER + "Budget: 2 files\n" + _DIFF, "Budget is '2 files'. Give a number"),
        (_HEADER + "Budget: 0\n" + _DIFF, "adds 1 lines, over its Budget of 0"),
        (_HEADER + "Budget: 0 lines, 1 file\n" + _DIFF, "adds 1 lines, over its Budget of 0"),
        (_HEADER + "Budget: 1 line, 0 files\n" + _DIFF, "touches 1 files, over its Budget of 0"),
        (
            _HEADER.replace("Owner: packaging", f"Owner: {TEMPLATE['Owner']}") + _DIFF,
            "header 'Owner' is not filled in: <the team or person responsible>. State it",
        ),
        (_HEADER + "no header\n" + _DIFF, ":7: 'no header' is not a header. Write 'Key: value'"),
        (_HEADER, "no diff in it"),
        (_HEADER + _DIFF.replace("-1 +1", "-1,9 +1"), ":11: the hunk ends before the line counts"),
    ],
)
def test_faults_of_a_patch(tmp_path: Path, text: str, message: str) -> None:
    _write(tmp_path, "x.patch\n", x=text)
    with pytest.raises(SeriesError, match=message) as raised:
        load_series(tmp_path)
    assert "x.patch" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("1", Budget(1)),
        ("1 line", Budget(1)),
        ("12 lines", Budget(12)),
        ("12 lines, 1 file", Budget(12, 1)),
        ("1, 2 files", Budget(1, 2)),
    ],
)
def test_budgets(tmp_path: Path, text: str, budget: Budget) -> None:
    root = _write(tmp_path, "x.patch\n", x=f"{_HEADER}Budget: {text}\n{_DIFF}")
    (patch,) = load_series(root).patches
    assert patch.budget == budget


def test_a_patch_expires_after_its_day_and_the_build_goes_on(tmp_path: Path) -> None:
    texts = {
        name: f"{_HEADER}Expires: {day}\n{_DIFF}"
        for name, day in {"a": "2030-01-31", "b": "2031-01-31"}.items()
    }
    series = load_series(
        _write(tmp_path, "b.patch\na.patch\nc.patch\n", c=_HEADER + _DIFF, **texts)
    )

    def late(day: str) -> list[str]:
        return [patch.name for patch in overdue(series, datetime.date.fromisoformat(day))]

    assert late("2030-01-31") == []
    assert late("2030-02-01") == ["a.patch"]
    assert late("2031-02-01") == ["b.patch", "a.patch"]


def test_nothing_of_the_template_passes_for_a_header() -> None:
    filled = dict(line.split(": ", 1) for line in _HEADER.splitlines())
    for key in TEMPLATE:
        text = "".join(
            f"{name}: {value}\n" for name, value in {**filled, key: TEMPLATE[key]}.items()
        )
        with pytest.raises(SeriesError, match=key):
            parse_header(text, "p")
    assert set(TEMPLATE) == set(REQUIRED) - {"Subject"}
