# SPDX-License-Identifier: Apache-2.0
"""A patch series applies at exactly its recorded lines, or not at all."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.importer.apply import ApplyError, apply_hunks, apply_series
from tools.importer.series import Series, load_series
from tools.importer.unified import parse_diff

_HEADER = """\
Subject: Any
Owner: packaging
Reason: build
Upstream: remove when the test passes without it
Extension-point-considered: none
Test: any_test.py::test_any

"""
_TEN = "".join(f"line {number}\n" for number in range(1, 11))


def _diff(old: bytes, new: bytes, path: str = "x", context: int = 1) -> bytes:
    """Return a unified diff that, unlike difflib, marks a missing newline at the end of a file."""
    out = b""
    for line in difflib.diff_bytes(
        difflib.unified_diff,
        _lines(old),
        _lines(new),
        f"a/{path}".encode(),
        f"b/{path}".encode(),
        lineterm=b"\n",
        n=context,
    ):
        out += line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
    return out


def _lines(data: bytes) -> list[bytes]:
    *ended, rest = data.split(b"\n")
    return [line + b"\n" for line in ended] + ([rest] if rest else [])


def _series(root: Path, *diffs: bytes) -> Series:
    directory = root / "patches"
    directory.mkdir()
    names = [f"patch-{number}.patch" for number in range(len(diffs))]
    (directory / "series").write_text("\n".join(names))
    for name, diff in zip(names, diffs, strict=True):
        (directory / name).write_bytes(_HEADER.encode() + diff)
    return load_series(directory)


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "x").write_text(_TEN)
    return tree


_TEXT = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"-- x\n", b"\xff"]), max_size=20
)


@given(old=_TEXT, new=_TEXT, context=st.integers(0, 4))
def test_applying_a_diff_gives_the_new_text(
    old: list[bytes], new: list[bytes], context: int
) -> None:
    before, after = b"".join(old), b"".join(new)
    for diff in parse_diff(_diff(before, after, context=context)):
        before = apply_hunks(before, diff.hunks)
    assert before == after


@given(old=_TEXT, new=_TEXT, extra=st.sampled_from([b"", b"\n", b"a\n", b"z\n"]))
def test_a_shifted_text_is_never_patched_in_the_wrong_place(
    old: list[bytes], new: list[bytes], extra: bytes
) -> None:
    """A patch must not apply to shifted text, unless identical text is now at its line numbers."""
    before, after = b"".join(old), b"".join(new)
    for diff in parse_diff(_diff(before, after)):
        try:
            shifted = apply_hunks(extra + before, diff.hunks)
        except ApplyError:
            continue
        lines = _lines(extra + before)
        for hunk in diff.hunks:
            index = hunk.old_index
            assert tuple(lines[index : index + len(hunk.old)]) == hunk.old
        assert len(_lines(shifted)) - len(lines) == sum(
            len(hunk.new) - len(hunk.old) for hunk in diff.hunks
        )


def test_patches_build_on_each_other(tmp_path: Path, tree: Path) -> None:
    first, second = _TEN.replace("line 2\n", "a\nb\n"), _TEN.replace("line 2\n", "a\nc\n")
    series = _series(
        tmp_path, _diff(_TEN.encode(), first.encode()), _diff(first.encode(), second.encode())
    )
    assert apply_series(series, tree) == ["x"]
    assert (tree / "x").read_text() == second


def test_files_are_created_and_deleted(tmp_path: Path, tree: Path) -> None:
    created = b"diff --git a/sub/new b/sub/new\nnew file mode 100755\n--- /dev/null\n+++ b/sub/new\n@@ -0,0 +1 @@\n+x\n"
    deleted = _diff(_TEN.encode(), b"").replace(b"+++ b/x", b"+++ /dev/null")
    assert apply_series(_series(tmp_path, created, deleted), tree) == ["sub/new", "x"]
    assert (tree / "sub" / "new").read_bytes() == b"x\n"
    assert os.access(tree / "sub" / "new", os.X_OK)
    assert not (tree / "x").exists()


def test_the_executable_bit_is_kept(tmp_path: Path, tree: Path) -> None:
    (tree / "x").chmod(0o755)
    apply_series(_series(tmp_path, _diff(_TEN.encode(), b"x\n")), tree)
    assert (tree / "x").stat().st_mode & 0o777 == 0o755


def _moved() -> str:
    return "new first line\n" + _TEN


def _fuzzy() -> str:
    return _TEN.replace("line 4", "LINE 4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _moved(),
            r"patch-1.patch: x: hunk 1: line 4 should be 'line 4', found 'line 3' "
            r"\(the same lines are at line 5\). Refresh the patch against this tree, or drop it",
        ),
        (
            _fuzzy(),
            r"patch-1.patch: x: hunk 1: line 4 should be 'line 4', found 'LINE 4'. Refresh",
        ),
        (
            "line 1\n",
            r"patch-1.patch: x: hunk 1: line 4 should be 'line 4', found the end of the file. Ref",
        ),
        (
            _TEN.replace("line 5", "changed"),
            r"hunk 1: line 5 should be 'line 5', found 'changed'",
        ),
    ],
)
def test_what_other_tools_would_fuzz_is_refused(
    tmp_path: Path, tree: Path, text: str, message: str
) -> None:
    good = b"--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"
    bad = _diff(_TEN.encode(), _TEN.replace("line 5", "changed").encode())
    (tree / "x").write_text(text)
    with pytest.raises(ApplyError, match=message) as raised:
        apply_series(_series(tmp_path, good, bad), tree)
    assert "\n" not in str(raised.value)
    assert (tree / "x").read_text() == text
    assert not (tree / "new").exists(), "a patch before the faulty one was written"


@pytest.mark.parametrize(
    ("diff", "message"),
    [
        (b"--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n", "x: the patch creates this file, but it"),
        (b"--- a/y\n+++ b/y\n@@ -1 +1 @@\n-x\n+y\n", "y: no such file 'y' in the tree"),
        (
            b"--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 1\n",
            "deletes this file, but lines remain",
        ),
        (b"--- a/link\n+++ b/link\n@@ -1 +1 @@\n-line 1\n+y\n", "'link' is a symlink in the tree"),
        (b"--- a/up/x\n+++ b/up/x\n@@ -1 +1 @@\n-line 1\n+y\n", "'up' is a symlink in the tree"),
        (b"--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n-line 1\n+y\n", "a directory in the tree"),
        (
            b"--- a/x\n+++ b/x\n@@ -5 +5 @@\n-line 5\n+y\n@@ -4 +4 @@\n-line 4\n+y\n",
            "hunk 2: starts at line 4, inside the hunk before it",
        ),
        (
            b"--- a/x\n+++ b/x\n@@ -2,0 +3 @@\n+y\n\\ No newline at end of file\n",
            "hunk 1: a line without a newline would not be the last one",
        ),
        (b"--- a/x\n+++ b/x\n@@ -12,0 +13 @@\n+y\n", "hunk 1: line 12 is past the end of the file"),
    ],
)
def test_trees_that_do_not_fit(tmp_path: Path, tree: Path, diff: bytes, message: str) -> None:
    (tree / "link").symlink_to("x")
    (tree / "up").symlink_to(".")
    (tree / "sub").mkdir()
    with pytest.raises(ApplyError, match=message):
        apply_series(_series(tmp_path, diff), tree)
    assert (tree / "x").read_text() == _TEN
