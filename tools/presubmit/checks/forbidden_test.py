# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import forbidden, sample_tree

# The tests build forbidden text from parts, so that this file passes the check that it tests.
_DOT = "."
_ROOTS = ("work", "root", "opt")


@pytest.mark.parametrize(
    "line",
    [
        "https://files" + _DOT + "pythonhosted.org/packages/x.whl",
        "index = https://pypi" + _DOT + "org/simple",
        "https://registry" + _DOT + "npmjs.org/left-pad",
        "deb http://deb" + _DOT + "debian.org/debian bookworm main",
        "http://ftp.de" + _DOT + "debian.org/debian",
        *(f"open('/{root}/me/file')" for root in _ROOTS),
        "x = 1  # TO" + "DO: later",
        "<" * 7 + " HEAD",
        "=" * 7,
    ],
)
def test_rejects(tmp_path: pathlib.Path, line: str) -> None:
    (problem,) = forbidden.find(sample_tree.write(tmp_path, {"a.txt": f"first\n{line}\n"}))
    assert (problem.path, problem.line) == ("a.txt", 2)
    assert problem.next_step


@pytest.mark.parametrize(
    "line",
    [
        "https://download.pytorch.org/whl/cpu",
        "https://www.debian.org/doc",
        "bazel-bin/work/x",
        "$HOME/opt/x",
        "~/work/x",
        "the /opt folder",
        "mastodon and todos",
        "heading\n=========",
    ],
)
def test_accepts(tmp_path: pathlib.Path, line: str) -> None:
    assert [*forbidden.find(sample_tree.write(tmp_path, {"a.txt": line}))] == []


def test_patch_counts_only_what_it_brings(tmp_path: pathlib.Path) -> None:
    note = "TO" + "DO"
    patch = f"""Subject: s

--- a/x.py
+++ b/x.py
@@ -1,3 +1,3 @@
 # {note} of upstream
-# {note} removed
+# {note} added
"""
    (problem,) = forbidden.find(sample_tree.write(tmp_path, {"x.patch": patch}))
    assert problem.line == 8


def test_patch_header_counts(tmp_path: pathlib.Path) -> None:
    text = "Subject: TO" + "DO\n\n--- a/x\n"
    (problem,) = forbidden.find(sample_tree.write(tmp_path, {"x.patch": text}))
    assert problem.line == 1


def test_binary_file_is_no_text(tmp_path: pathlib.Path) -> None:
    picture = b"\xff\xfe TO" + b"DO "
    assert [*forbidden.find(sample_tree.write(tmp_path, {"a.png": picture}))] == []
