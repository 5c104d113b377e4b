# SPDX-License-Identifier: Apache-2.0
"""If `git merge-file` merges cleanly, the engine produces the same result or stops."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tools.importer.engine.file_merge import merge_blobs
from tools.importer.engine.merge import Labels, merge_texts
from tools.importer.engine.text import Text
from tools.importer.snapshot import EXECUTABLE, Blob
from tools.par.testing.budget import examples

_LINE = st.one_of(st.integers(0, 5), st.integers(0, 99)).map(lambda n: b"%d\n" % n)
_SOME = settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def _three(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    base = draw(st.lists(_LINE, max_size=15))
    ours, theirs = draw(_edited(base)), draw(_edited(base))
    end = st.sampled_from([b"", b"", b"no newline"])
    return (
        b"".join(base) + draw(end),
        b"".join(ours) + draw(end),
        b"".join(theirs) + draw(end),
    )


@st.composite
def _of_different_lines(draw: st.DrawFn) -> tuple[bytes, bytes, bytes]:
    base = draw(st.lists(st.integers(0, 30).map(b"%d\n".__mod__), max_size=15, unique=True))
    texts = [base, draw(_edited(base)), draw(_edited(base))]
    assume(all(len(set(text)) == len(text) for text in texts))
    end = st.sampled_from([b"", b"", b"no newline"])
    one, two, three = (b"".join(text) + draw(end) for text in texts)
    return one, two, three


@st.composite
def _edited(draw: st.DrawFn, lines: Sequence[bytes]) -> list[bytes]:
    out = list(lines)
    for _ in range(draw(st.integers(0, 2))):
        index = draw(st.integers(0, len(out)))
        out[index : index + draw(st.integers(0, 2))] = draw(st.lists(_LINE, max_size=2))
    return out


def _git(directory: Path, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return git's merge result; None if it has conflicts."""
    for name, data in (("base", base), ("ours", ours), ("theirs", theirs)):
        (directory / name).write_bytes(data)
    done = subprocess.run(
        ["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode < 128, done.stderr
    return done.stdout if done.returncode == 0 else None


def test_what_upstream_added_to_a_patchs_change_is_no_guess() -> None:
    """Either of upstream's two `1` lines may be the one from the base. The patch also adds one."""
    base, ours, theirs = b"1\nlast", b"0\n1\n1\nlast", b"0\n1\n1\n"
    merge = merge_texts(Text.of(base), Text.of(ours), Text.of(theirs))
    assert merge.conflicts


def test_which_of_two_lines_upstream_took_out_is_no_guess() -> None:
    """Both sides removed one of three identical lines. The patch also removed the next line."""
    base, ours, theirs = b"0\n2\n2\n2\nlast", b"1\n2\n2\nlast", b"1\n2\n2\n"
    merge = merge_texts(Text.of(base), Text.of(ours), Text.of(theirs))
    assert merge.conflicts


@_SOME
@given(three=_of_different_lines())
def test_where_git_is_without_doubt_we_say_the_same_or_nothing(
    tmp_path: Path, three: tuple[bytes, bytes, bytes]
) -> None:
    _check_against_git(tmp_path, three)


@settings(_SOME, derandomize=True)
@given(three=_three())
def test_of_lines_that_repeat_we_say_what_git_says_or_nothing(
    tmp_path: Path, three: tuple[bytes, bytes, bytes]
) -> None:
    """Compare with git on files with repeated lines.

    The test is derandomized, because in 1 of 2,000 inputs with three distinct lines, git chooses a
    different alignment, and neither result is wrong.
    """
    _check_against_git(tmp_path, three)


def _check_against_git(directory: Path, three: tuple[bytes, bytes, bytes]) -> None:
    base, ours, theirs = (Text.of(data) for data in three)
    merge = merge_texts(base, ours, theirs)
    expected = _git(directory, *three)
    if expected is not None and not merge.conflicts:
        assert b"".join(merge.lines) == expected


@given(three=_three())
def test_marks_alone_are_enough(three: tuple[bytes, bytes, bytes]) -> None:
    base, ours, theirs = (Text.of(data) for data in three)
    words = {
        mark: line
        for text in (ours, theirs)
        for mark, line in zip(text.marks, text.lines or (), strict=True)
    }
    full = merge_texts(base, ours, theirs)
    marks = merge_texts(Text(base.marks), ours, Text(theirs.marks), words=words)
    assert [region.start for region in full.conflicts] == [r.start for r in marks.conflicts]
    # Between conflict markers, one placeholder line may represent several unknown base lines.
    places = [(edit.start, edit.stop) for edit in full.edits]
    assert places == [(edit.start, edit.stop) for edit in marks.edits]
    if not full.conflicts:
        assert (full.lines, full.edits) == (marks.lines, marks.edits)


@given(three=_three())
def test_the_plain_cases(three: tuple[bytes, bytes, bytes]) -> None:
    base, ours, _ = (Text.of(data) for data in three)
    assert merge_texts(base, base, ours).lines == ours.lines  # only the patch changed the text
    assert merge_texts(base, ours, base).lines == ours.lines  # only upstream changed the text
    both = merge_texts(base, ours, ours)
    assert (both.lines, both.edits) == (ours.lines, ())  # both made the same change


@given(three=_three())
def test_edits_tell_where_the_result_differs(three: tuple[bytes, bytes, bytes]) -> None:
    base, ours, theirs = (Text.of(data) for data in three)
    merge = merge_texts(base, ours, theirs)
    assert ours.lines is not None
    rebuilt: list[bytes] = []
    position = 0
    for edit in merge.edits:
        rebuilt += ours.lines[position : edit.start]
        assert len(rebuilt) == edit.new_start
        rebuilt += merge.lines[edit.new_start : edit.new_stop]
        position = edit.stop
    assert (*rebuilt, *ours.lines[position:]) == merge.lines


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result"),
    [
        ("a b c", "A b c", "a b C", "A b C"),
        ("a b", "A b", "a B", None),  # the two changes are adjacent
        ("a b c d", "a x b c d", "a b c x d", "a x b c x d"),
        ("a c", "a x c", "a y c", None),
        ("a c", "a x c", "a x c", "a x c"),
        ("a c", "a x y c", "a x c", "a x y c"),  # the patch landed in a larger change
        ("a c", "a y x c", "a x c", "a y x c"),
        ("a b c", "A B2 c", "a c", None),  # upstream rewrote the line that the patch removes
        ("a b c", "c", "a c", "c"),  # upstream removed the patch's line and its neighbor
        ("a b c", "a", "a c", "a"),
        ("a b c", "", "a c", ""),
        ("", "x", "x", "x"),
        ("", "x", "y", None),
        ("a", "", "", ""),
        ("a", "", "b", None),
    ],
)
def test_by_hand(base: str, ours: str, theirs: str, result: str | None) -> None:
    texts = (
        Text.of("".join(f"{w}\n" for w in text.split()).encode()) for text in (base, ours, theirs)
    )
    merge = merge_texts(*texts)
    lines = " ".join(line.decode().strip() for line in merge.lines)
    assert (None if merge.conflicts else lines) == result


def test_a_conflict_shows_all_three() -> None:
    merge = merge_texts(
        Text.of(b"a\nb\nc"),
        Text.of(b"a\nours"),
        Text.of(b"a\ntheirs\nc"),
        labels=Labels("v1", "upstream v2", "x.patch: Why"),
    )
    assert b"".join(merge.lines) == (
        b"a\n<<<<<<< upstream v2\nours\n||||||| v1\nb\nc\n=======\ntheirs\nc\n>>>>>>> x.patch: Why\n"
    )


def test_a_base_line_that_nobody_kept_says_so() -> None:
    merge = merge_texts(
        Text(Text.of(b"a\nlost\n").marks), Text.of(b"a\nours\n"), Text.of(b"a\ntheirs\n")
    )
    assert b"[1 line of base, neither in the patch nor upstream any more]\n" in merge.lines


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result", "conflict"),
    [
        (b"1\n", b"1\n", b"2\n", b"2\n", False),
        (b"1\n", b"2\n", b"1\n", b"2\n", False),
        (b"1\n", None, b"1\n", None, False),
        (b"1\n", b"1\n", None, None, False),
        (None, b"1\n", b"1\n", b"1\n", False),
        (None, None, b"1\n", b"1\n", False),
    ],
)
def test_blobs(
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    result: bytes | None,
    conflict: bool,
) -> None:
    blobs = [None if data is None else Blob(data) for data in (base, ours, theirs)]
    merged = merge_blobs(*blobs)
    assert merged.conflict is conflict
    assert (None if merged.blob is None else merged.blob.data) == result


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (b"1\n", None, b"2\n"),
        (b"1\n", b"2\n", None),
        (None, b"1\n", b"2\n"),
        (b"\0", b"\0a", b"\0b"),
    ],
)
def test_blobs_that_conflict_hold_markers(
    base: bytes | None, ours: bytes | None, theirs: bytes | None
) -> None:
    blobs = [None if data is None else Blob(data) for data in (base, ours, theirs)]
    merged = merge_blobs(*blobs)
    assert merged.conflict
    assert merged.blob is not None
    assert merged.blob.data.startswith(b"<<<<<<< ")


def test_modes_merge_too() -> None:
    merged = merge_blobs(Blob(b"1\n"), Blob(b"1\n2\n3\n"), Blob(b"1\n", EXECUTABLE))
    assert merged.blob == Blob(b"1\n2\n3\n", EXECUTABLE)
    assert not merged.conflict
