# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import pytest

from tools.importer.engine.merge import merge_texts
from tools.importer.engine.outcome import Dispute
from tools.importer.engine.settlement import _answers, _settled, dispute_of
from tools.importer.engine.text import Text

BASE = [f"line {number}" for number in range(20)]
OURS = [*BASE[:9], "upstream's 9", *BASE[10:]]
THEIRS = [*BASE[:9], "the patch's 9", *BASE[10:]]


def _dispute(base: list[str], ours: list[str], theirs: list[str]) -> tuple[Dispute, bytes]:
    old, mine, yours = (_text(lines) for lines in (base, ours, theirs))
    merge = merge_texts(old, mine, yours)
    dispute = dispute_of(old, mine, yours, merge)
    assert dispute is not None
    return dispute, b"".join(merge.lines)


def _text(lines: list[str]) -> Text:
    return Text.of("".join(f"{line}\n" for line in lines).encode())


def _key(base: list[str], ours: list[str], theirs: list[str]) -> str:
    return _dispute(base, ours, theirs)[0].key


def test_the_key_ignores_line_numbers_and_the_rest_of_the_file() -> None:
    above, below = ["x", "y", "x"], ["more"]
    key = _key(BASE, OURS, THEIRS)
    assert key == _key([*above, *BASE], [*above, *OURS], [*above, *THEIRS])
    assert key == _key(BASE, [*above, *OURS, *below], THEIRS)
    assert key == _key(BASE[5:], [*OURS[5:16], "other"], THEIRS[5:])


@pytest.mark.parametrize("side", range(3))
def test_the_key_changes_with_each_side(side: int) -> None:
    sides = [list(BASE), list(OURS), list(THEIRS)]
    sides[side][9] += "!"
    assert _key(*sides) != _key(BASE, OURS, THEIRS)


def test_the_key_covers_the_lines_up_to_a_unique_one() -> None:
    """The key extends over identical lines, because the change may be at any of them."""
    blank = [""] * 3
    base = ["a", *blank, "old", *blank, "b"]
    ours, theirs = ["a", *blank, "new", *blank, "b"], ["a", *blank, "other", *blank, "b"]
    assert _key(base, ours, theirs) != _key(base, ["a", "", *ours[1:]], theirs)


def test_equal_texts_without_a_conflict_have_no_key() -> None:
    text = Text.of(b"a\n")
    assert dispute_of(text, text, text, merge_texts(text, text, text)) is None


def test_a_resolution_moves_to_another_file_with_the_same_conflict() -> None:
    dispute, marked = _dispute(BASE, OURS, THEIRS)
    resolved = "".join(f"{line}\n" for line in [*BASE[:9], "both", "9", *BASE[10:]]).encode()
    answers = _answers(dispute, marked, resolved)
    assert answers == (b"both\n9\n",)
    other, other_marked = _dispute(BASE, ["new", *OURS, "end"], THEIRS)
    settled = _settled(other, other_marked, answers)
    assert settled == b"new\n" + resolved + b"end\n"


@pytest.mark.parametrize(
    "resolved",
    [
        b"a\nx\nSEP\ny\nb\n!\n",  # the user added a line after the conflicts
        b"!\na\nx\nSEP\ny\nb\n",  # the user added a line before the conflicts
        b"a\nx\ny\nb\n",  # the user removed a line between the conflicts
        b"a\nSEP\nSEP\nb\n",  # it is unclear which of the two resolutions has the line SEP
        b"",
    ],
)
def test_other_resolutions_are_not_reused(resolved: bytes) -> None:
    dispute = Dispute("", ((1, 3), (4, 6)))
    assert _answers(dispute, b"a\n<\n>\nSEP\n<\n>\nb\n", resolved) is None


def test_an_answer_never_joins_two_lines() -> None:
    dispute = Dispute("", ((1, 3),))
    assert _settled(dispute, b"a\n<\n>\n", (b"end",)) == b"a\nend"
    assert _settled(dispute, b"a\n<\n>\nb\n", (b"end",)) is None


def test_answers_give_the_resolution_again_or_are_refused() -> None:
    dispute, marked = Dispute("", ((1, 3), (4, 6))), b"a\n<\n>\nSEP\n<\n>\nb\n"
    texts = [
        "".join(words)
        for count in range(4)
        for words in itertools.product(("x\n", "y\n", "SEP\n"), repeat=count)
    ]
    for one, two in itertools.product(texts, texts):
        answers = _answers(dispute, marked, f"a\n{one}SEP\n{two}b\n".encode())
        expected = None if "SEP" in one + two else (one.encode(), two.encode())
        assert answers == expected
