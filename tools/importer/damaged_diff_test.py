# SPDX-License-Identifier: Apache-2.0
"""A corrupt diff is either parsed as is, or rejected with a one-line error.

The tests randomly corrupt bits, lines, headers, counts and names of diffs written by git. An
accepted diff survives a round trip, stays inside the tree, and has the same effect as with git. A
rejected diff changes no file.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tools.importer.apply import apply_series
from tools.importer.binary import write_literal
from tools.importer.errors import UserError
from tools.importer.series import load_series
from tools.importer.snapshot import MODES, blob_id
from tools.importer.unified import DiffError, FileDiff, Hunk, parse_diff
from tools.par.testing.budget import examples

_TREE = {
    "x": b"keep\nold\nkeep\n" * 4,
    "sub/y z": b"one\ntwo\nthree",
    "run": b"#!/bin/sh\n",
    "bin": b"\0before",
}
_BINARY = b"\0after"
_DIFFS = (
    b"diff --git a/x b/x\nindex 1234567..89abcde 100644\n--- a/x\n+++ b/x\n"
    b"@@ -1,3 +1,4 @@ def f():\n keep\n-old\n+new\n+more\n keep\n@@ -10,3 +11,2 @@\n keep\n-old\n keep\n",
    b'diff --git "a/sub/y z" "b/sub/y z"\n--- a/sub/y z\t\n+++ b/sub/y z\t\n'
    b"@@ -2,2 +2,2 @@ one\n two\n-three\n\\ No newline at end of file\n+drei\n\\ No newline at end of file\n",
    b"diff --git a/run b/tools/run\nold mode 100644\nnew mode 100755\nsimilarity index 100%\n"
    b"rename from run\nrename to tools/run\n",
    b'diff --git "a/q\\"\\351" "b/q\\"\\351"\nnew file mode 100755\nindex 0000000..587be6b\n'
    b'--- /dev/null\n+++ "b/q\\"\\351"\n@@ -0,0 +1 @@\n+x\n',
    b"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1,12 +0,0 @@\n"
    + b"-keep\n-old\n-keep\n" * 4,
    b"diff --git a/bin b/bin\nindex %b..%b 100644\nGIT binary patch\n%b%b"
    % (
        blob_id(_TREE["bin"]).encode(),
        blob_id(_BINARY).encode(),
        write_literal(_BINARY),
        write_literal(_TREE["bin"]),
    ),
)
_HOSTILE = (
    b"--- a/../../x",
    b"+++ b/../x",
    b"+++ b//etc/passwd",
    b"+++ /etc/passwd",
    b'+++ "b/\\056\\056/x"',
    b'+++ "b/x\\000y"',
    b'+++ "b/q\\"\\0"',
    b'+++ "b/x\\777"',
    b'+++ "b/x\\q"',
    b'+++ "b/x"y"',
    b"+++ b/.git/config",
    b"+++ b/sub/.Git/hooks/x",
    b"--- /dev/null",
    b"rename from ../x",
    b"rename to /x",
    b'rename to "sub/\\056./x"',
    b"copy from x",
    b"new file mode 120000",
    b"new file mode 160000",
    b"old mode 100755",
    b"deleted file mode 100644",
    b"index 0..0 999999",
    b"GIT binary patch",
    b"Binary files a/x and b/x differ",
    b"literal 99999999999999999999",
    b"delta 5",
    b"\\ No newline at end of file",
    b"@@ -1,999999999 +1,999999999 @@",
    b"@@ -99999999999999999999 +1 @@",
    b"@@ -0,0 +0,0 @@",
    b"@@ -4294967295,1 +4294967295,1 @@",
    b"@@ -2 +2 @@",
    b"@@ -00000001 +1 @@",
    b"diff --git a/x b/../y",
    b"diff --git a/sub b/sub",
    b'diff --git "a/x b/x',
    b"\xff\xfe",
    b"",
)
_COUNT = re.compile(rb"\d+")


@st.composite
def _damaged(draw: st.DrawFn) -> bytes:
    """Generate a concatenation of one to three of the diffs, with up to four defects in total."""
    lines = b"".join(draw(st.lists(st.sampled_from(_DIFFS), min_size=1, max_size=3))).split(b"\n")
    for _ in range(draw(st.integers(0, 4))):
        index = draw(st.integers(0, len(lines) - 1))
        kind = draw(
            st.sampled_from(["drop", "twice", "hostile", "replace", "number", "bit", "swap"])
        )
        if kind == "drop" and len(lines) > 1:
            del lines[index]
        elif kind == "twice":
            lines.insert(index, lines[index])
        elif kind == "hostile":
            lines.insert(index, draw(st.sampled_from(_HOSTILE)))
        elif kind == "replace":
            lines[index] = draw(st.sampled_from(_HOSTILE))
        elif kind == "number":
            number = str(draw(st.sampled_from([0, 1, 2, 3, 7, 13, 2**31, 2**64, 10**40]))).encode()
            lines[index] = _COUNT.sub(number, lines[index], count=draw(st.integers(1, 4)))
        elif kind == "bit" and lines[index]:
            offset = draw(st.integers(0, len(lines[index]) - 1))
            flipped = lines[index][offset] ^ (1 << draw(st.integers(0, 7)))
            lines[index] = lines[index][:offset] + bytes([flipped]) + lines[index][offset + 1 :]
        else:
            other = draw(st.integers(0, len(lines) - 1))
            lines[index], lines[other] = lines[other], lines[index]
    return b"\n".join(lines)


def _parsed(data: bytes) -> tuple[FileDiff, ...] | None:
    """Parse diffs. If the parser rejects them, check its error and return None."""
    try:
        return parse_diff(data)
    except DiffError as error:
        refusal = error
    _check_message(refusal)
    assert 1 <= refusal.line <= data.count(b"\n") + 2
    return None


def _check_message(error: UserError) -> None:
    text = str(error)
    assert text.isprintable(), text
    assert len(text) < 1000


def _check(diff: FileDiff) -> None:
    """Check the invariants of an accepted diff."""
    assert diff.paths
    for path in diff.paths:
        parts = path.split("/")
        assert not path.startswith("/")
        assert not {"", ".", ".."} & set(parts)
        assert ".git" not in path.lower().split("/")
        assert "\0" not in path
    assert {diff.old_mode, diff.new_mode} <= {None, *MODES}
    for hunk in diff.hunks:
        assert b"".join(hunk.old).count(b"\n") >= len(hunk.old) - 1
        for edit in hunk.edits:
            assert hunk.old[edit.start : edit.stop] or hunk.new[edit.new_start : edit.new_stop]


def _written(hunk: Hunk) -> bytes:
    """Return the text of a hunk, with line counts computed from its lines."""
    out = [b"@@ -%d,%d +1,%d @@%b\n" % (hunk.old_start, len(hunk.old), len(hunk.new), hunk.section)]

    def put(mark: bytes, lines: Sequence[bytes]) -> None:
        for line in lines:
            end = b"" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n"
            out.append(mark + line + end)

    index = 0
    for edit in hunk.edits:
        put(b" ", hunk.old[index : edit.start])
        put(b"-", hunk.old[edit.start : edit.stop])
        put(b"+", hunk.new[edit.new_start : edit.new_stop])
        index = edit.stop
    put(b" ", hunk.old[index:])
    return b"".join(out)


@settings(max_examples=examples(1500), deadline=None)
@given(data=st.one_of(_damaged(), _damaged(), st.binary(max_size=300)))
@example(data=b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n\\ \n\\ ")
def test_a_damaged_diff_is_read_or_refused_in_one_line(data: bytes) -> None:
    diffs = _parsed(data) or ()
    for diff in diffs:
        _check(diff)
        if diff.hunks:
            text = b"".join([b"--- a/x\n+++ b/x\n", *map(_written, diff.hunks)])
            (again,) = parse_diff(text)
            assert [(hunk.old_start, hunk.old, hunk.new) for hunk in again.hunks] == [
                (hunk.old_start, hunk.old, hunk.new) for hunk in diff.hunks
            ]
    spans = [diff.span for diff in diffs]
    assert spans == sorted(spans)
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(spans))


def _lay_out(tree: Path) -> None:
    for path, data in _TREE.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)


def _files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.lstat().st_mode & 0o111, path.read_bytes())
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def _git(tree: Path, data: bytes) -> bool:
    """Apply the diff with git, without user configuration; return whether git accepts it."""
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"],
        cwd=tree,
        env={
            "PATH": "/usr/bin:/bin",
            "GIT_CEILING_DIRECTORIES": str(tree.parent),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        },
        input=data,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def _is_sound(data: bytes) -> bool:
    """Return whether the hunks' new-side line numbers, which only git reads, are consistent.

    That is the case if each equals the old-side number plus the net number of lines that earlier
    hunks add.
    """
    lines = data.split(b"\n")
    for diff in parse_diff(data):
        heads = [line for line in lines[slice(*diff.span)] if line.startswith(b"@@ ")]
        shift = 0
        for hunk, head in zip(diff.hunks, heads, strict=False):
            start = int(head.split(b"+")[1].split(b" ")[0].split(b",")[0])
            index = start - 1 if hunk.new else start
            if index != hunk.old_index + shift:
                return False
            shift += len(hunk.new) - len(hunk.old)
    return True


_HEADER = (
    b"Subject: Any\nOwner: packaging\nReason: build\nUpstream: none\n"
    b"Extension-point-considered: none\nTest: any_test.py::test_any\n\n"
)


@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=_damaged())
def test_a_damaged_diff_does_what_git_does_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    root = tmp_path_factory.mktemp("apply")
    tree, gits = root / "ours" / "tree", root / "gits" / "tree"
    _lay_out(tree)
    _lay_out(gits)
    (root / "series").write_text("p.patch\n")
    (root / "p.patch").write_bytes(_HEADER + data)
    before = _files(root / "ours")
    try:
        changed = apply_series(load_series(root), tree)
    except UserError as error:
        _check_message(error)
        assert _files(root / "ours") == before
        return
    after = _files(root / "ours")
    assert {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    } <= {f"tree/{path}" for path in changed}
    if _is_sound(data) and _git(gits, data):
        assert _files(root / "gits") == after


@pytest.mark.parametrize("name", [b'"b/q\\"\\0"', b'"b/x\\777"', b'"b/x\\q"', b'"b/x"y"'])
def test_a_name_that_git_does_not_write_is_refused(name: bytes) -> None:
    data = b"--- /dev/null\n+++ " + name + b"\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(DiffError, match="is not a quoted name"):
        parse_diff(data)
