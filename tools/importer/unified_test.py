# SPDX-License-Identifier: Apache-2.0
"""Test which diffs the parser accepts, and which line each error names."""

from __future__ import annotations

import pytest

from tools.importer.unified import DiffError, parse_diff

_CHANGE = b"""\
Prose before the diff.

diff --git a/torch/x.py b/torch/x.py
--- a/torch/x.py
+++ b/torch/x.py
@@ -3,3 +3,4 @@ def f():
 keep
-old
+new
+more
 keep
"""


def test_a_change() -> None:
    (diff,) = parse_diff(_CHANGE)
    (hunk,) = diff.hunks
    assert (diff.old_path, diff.new_path, diff.path) == ("torch/x.py", "torch/x.py", "torch/x.py")
    assert hunk.old == (b"keep\n", b"old\n", b"keep\n")
    assert hunk.new == (b"keep\n", b"new\n", b"more\n", b"keep\n")
    assert (hunk.old_index, hunk.added) == (2, 2)


def test_a_new_executable_and_a_deleted_file() -> None:
    created, deleted = parse_diff(
        b"diff --git a/run b/run\nnew file mode 100755\n"
        b"--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+x\n"
        b"diff --git a/gone b/gone\ndeleted file mode 100644\n"
        b"--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    )
    assert (created.old_path, created.new_path, created.executable) == (None, "run", True)
    assert (deleted.old_path, deleted.new_path, deleted.executable) == ("gone", None, False)


def test_missing_newlines_and_carriage_returns_are_kept() -> None:
    (diff,) = parse_diff(
        b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\r\n\\ No newline at end of file\n+b\r\n"
    )
    assert diff.hunks[0].old == (b"a\r",)
    assert diff.hunks[0].new == (b"b\r\n",)


def test_removed_lines_that_look_like_headers() -> None:
    (diff,) = parse_diff(
        b"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-@@ -1 +1 @@\n++++ b/y\n+z\n"
    )
    assert diff.hunks[0].old == (b"-- a/y\n", b"@@ -1 +1 @@\n")
    assert diff.hunks[0].new == (b"+++ b/y\n", b"z\n")


@pytest.mark.parametrize(
    ("diff", "line", "message"),
    [
        (b"diff --git a/x b/y\nsimilarity index 100%\n", 1, "no rename is stated"),
        (b"diff --git a/x b/x\nold mode 160000\n", 2, "mode 160000 is not one of"),
        (b"diff --git a/x b/x\nGIT binary patch\n", 2, "full ids"),
        (b"--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", 3, "without 'rename from'"),
        (b"--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", 1, "not a plain path"),
        (b"--- a//x\n+++ b//x\n@@ -1 +1 @@\n-a\n+b\n", 1, "not a plain path"),
        (b'--- "x"\n+++ "b/x"\n@@ -1 +1 @@\n-a\n+b\n', 1, "must start with 'a/'"),
        (b"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n", 3, "both sides"),
        (b"--- a/x\n+++ b/x\n", 3, "no hunk"),
        (b"--- a/x\n+++ b/x\n@@ nonsense\n", 3, "not a hunk header"),
        (b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n-a\n+b\n", 3, "ends before the line counts"),
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n+b\n+c\n", 3, "disagrees with the line counts"),
        (b"@@ -1 +1 @@\n-a\n+b\n", 1, "before any"),
    ],
)
def test_refusals_name_the_line(diff: bytes, line: int, message: str) -> None:
    with pytest.raises(DiffError, match=message) as raised:
        parse_diff(diff)
    assert raised.value.line == line
