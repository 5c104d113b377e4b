# SPDX-License-Identifier: Apache-2.0
"""Merge files with identical lines, whose hidden identities determine the correct result.

A line's identity is its position in the base (line_identity.py). A clean result must equal the
result of applying the edits by line identity. The outcome may be `landed` only if upstream changed
the same lines as the patch. Both must hold regardless of the alignment that the engine chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tools.importer.engine.file_merge import merge_blobs
from tools.importer.engine.line_identity import (
    LineEdit,
    Lines,
    Story,
    carried,
    merged,
    single_edits,
)
from tools.importer.engine.outcome import Outcome
from tools.importer.snapshot import Blob
from tools.par.testing.budget import examples

_BLOCKS = [("a", 2), ("a", 4), ("ab", 2), ("ab", 3), ("abc", 2), ("aab", 2)]


def _lines(words: str) -> Lines:
    return tuple(f"{word}\n".encode() for word in words.split())


def _verdict(story: Story) -> str:
    """Return `stop` for a conflict, `right` for a correct merge, or else what is wrong."""
    result = merged(story)
    if result.outcome.stops:
        return "stop"
    if result.outcome is Outcome.LANDED:
        return "right" if story.landed else "landed, but not by identity"
    if story.truth is None:
        return "both changed the same lines, yet it is clean"
    assert result.after is not None
    return "right" if result.after.data == b"".join(story.truth) else "another clean text"


def _stories(base: Lines) -> Iterator[Story]:
    for upstream in single_edits(len(base), [(), _lines("upstream")]):
        for patch in single_edits(len(base), [(), _lines("patch")]):
            story = Story(base, (upstream,), (patch,))
            if story.is_told and story.theirs != base:
                yield story


@pytest.mark.parametrize(("block", "count"), _BLOCKS)
@pytest.mark.parametrize("ends", ["", "first last"], ids=["whole", "between"])
def test_every_pair_of_edits_of_equal_blocks(block: str, count: int, ends: str) -> None:
    """For any range that a side removes or replaces, the result is correct or the merge stops."""
    first, last = ends.split() or ("", "")
    base = _lines(" ".join([first, *block * count, last]))
    verdicts = Counter(_verdict(story) for story in _stories(base))
    assert set(verdicts) == {"stop", "right"}


@pytest.mark.full
@pytest.mark.parametrize(
    "words", ["first a b X a b last", "a X a Y a last", "first a a X a a last"]
)
def test_every_pair_of_edits_of_equal_blocks_with_a_line_between(words: str) -> None:
    """A side may remove one of two identical blocks, and the line between the blocks.

    Its text then does not show which of the blocks was removed.
    """
    wrong = [
        (story, verdict)
        for story in _stories(_lines(words))
        if (verdict := _verdict(story)) not in ("stop", "right") and not _is_one_change(story)
    ]
    assert wrong == []


def _is_one_change(story: Story) -> bool:
    """Return whether only one alignment of the texts makes sense.

    This is the case if both sides produced the same text and, in some alignment, removed the same
    lines. It is also the case if the patch adds lines where upstream removed a block, because the
    other alignment then results in a conflict instead of a different text.
    """
    if story.ours == story.theirs:
        return any(other.landed for other in story.slid())
    (upstream,), (patch,) = story.upstream, story.patch
    return bool(patch.new) and not upstream.new and story.truth is None


@st.composite
def _edits(draw: st.DrawFn, size: int, words: Sequence[str]) -> tuple[LineEdit, ...]:
    cuts = sorted(draw(st.sets(st.integers(0, size), min_size=1, max_size=4)))
    cuts += cuts[-1:] if len(cuts) % 2 else []
    new = st.lists(st.sampled_from(words), max_size=3).map(" ".join).map(_lines)
    edits = [LineEdit(cuts[index], cuts[index + 1], draw(new)) for index in range(0, len(cuts), 2)]
    return tuple(edit for edit in edits if edit.start < edit.stop or edit.new)


@st.composite
def _any_story(draw: st.DrawFn) -> Story:
    words = "abcde"[: draw(st.integers(1, 5))]
    block = draw(st.lists(st.sampled_from(words), min_size=1, max_size=4))
    count = draw(st.integers(1, 4))
    apart = draw(st.booleans())  # True: a unique line separates the blocks
    between = [[f"line{number}"] if apart else [] for number in range(1, count)]
    base = _lines(" ".join(word for line in [[], *between] for word in (*line, *block)))
    if draw(st.booleans()):
        base = (*_lines("first"), *base, *_lines("last"))
    patch = draw(_edits(len(base), [*words, "patch"]))
    upstream = draw(_edits(len(base), [*words, "upstream"]))
    if draw(st.integers(0, 3)) == 0:
        upstream = patch
    return Story(base, upstream, patch)


@settings(max_examples=examples(1500), deadline=None)
@given(story=_any_story())
def test_edits_of_any_text_of_few_words(story: Story) -> None:
    assume(story.is_told and story.patch and story.theirs != story.base)
    if story.truth is None and not merged(story).outcome.drops:
        return  # both sides insert at the same place, so the order is unknown
    verdict = _verdict(story)
    if verdict not in ("stop", "right"):
        # The patch may instead have removed the other of two identical lines, which results in the
        # same text. In that case, the whole patch must have landed, or the result must be correct
        # by line identity.
        assert any(
            other.landed
            or ({*other.patch} <= {*story.patch, *story.upstream} and _verdict(other) == "right")
            for other in story.slid()
        ), verdict


def _texts(*texts: str) -> list[bytes]:
    return [b"".join(_lines(words)) for words in texts]


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        # Both sides remove f, g and a blank line.
        ("x blank f g blank y", "x blank y", "x blank y"),
        ("x blank y", "x blank f blank y", "x blank f blank y"),
        ("x blank y", "x blank f blank g blank y", "x blank f blank y"),
        ("x end y end z", "x end y new end z", "x end y new end z"),
        ("x a a a f a a a y", "x a a a a a a y", "x a a a a a a y"),
        ("x if v try y", "x else try try y", "x else try try y"),  # either `try` may be the old one
    ],
)
def test_a_change_beside_equal_lines_that_landed(base: str, ours: str, theirs: str) -> None:
    """The patch has landed: alignments differ only in which of two identical lines is new."""
    assert carried(*_texts(base, ours, theirs)).outcome is Outcome.LANDED


def test_a_doubtful_landing_is_shown_between_markers() -> None:
    """Upstream removed one of two identical blocks; the patch removed the end of the second one."""
    result = carried(*_texts("a b a b", "a b", "a b a"))
    assert result.outcome is Outcome.AMBIGUOUS
    assert "of the old file" in result.note
    assert result.after is not None
    assert b"=======\na\n>>>>>>> theirs\n" in result.after.data


def test_whole_files_that_are_at_hand_are_no_guess_either() -> None:
    merge = merge_blobs(*map(Blob, _texts("a b a b", "a b", "a b a")))
    assert merge.conflict
    assert merge.blob is not None
    assert b"<<<<<<< " in merge.blob.data


def test_a_line_that_upstream_removed_may_be_copied_elsewhere() -> None:
    """The patch keeps the line `one` and adds a copy elsewhere, so it does not move the line."""
    result = carried(*_texts("x one y z w", "x y z w", "x one y z one w"))
    assert not result.outcome.stops
    assert result.after is not None
    assert [result.after.data] == _texts("x y z one w")


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("x one two y", "x y two one", "x two y"),  # upstream moved the line that the patch removes
        # The patch moved the line that upstream removed.
        ("x one two three y", "x two three y", "x two three one y"),
    ],
)
def test_a_line_that_one_side_removed_does_not_come_back(base: str, ours: str, theirs: str) -> None:
    assert carried(*_texts(base, ours, theirs)).outcome.stops
