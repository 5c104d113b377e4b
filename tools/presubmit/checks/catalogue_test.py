# SPDX-License-Identifier: Apache-2.0
"""Test that the table is generated, and that each id is unique and names an existing test."""

from __future__ import annotations

import json
import pathlib

import pytest

from tools.presubmit import tree
from tools.presubmit.checks import catalogue, sample_tree

_PATCH = """\
Subject: Open paths through the seam
Id: {id}
Owner: files
Reason: {reason}
Upstream: None yet; remove when it does
Extension-point-considered: None
Test: tests/files_test.py::test_open

diff --git a/torch/a.py b/torch/a.py
--- a/torch/a.py
+++ b/torch/a.py
@@ -1,1 +1,1 @@
-old
+new
"""
_ENTRY = {
    "id": "L01",
    "spot": "`_logging`",
    "kind": "extension point",
    "what": "adopt",
    "upstreamable": "no: ours",
    "test": "tests/files_test.py::test_log",
}


def _tree(
    root: pathlib.Path,
    *,
    entry: dict[str, str] | None = None,
    id_: str = "F01",
    reason: str = "google",
) -> tree.Tree:
    written = sample_tree.write(
        root,
        {
            "third_party/torch/pin.json": '{"tag": "v1"}',
            "patches/README.md": "# patches\n",
            "patches/torch/v1/series": "a.patch\n",
            "patches/torch/v1/a.patch": _PATCH.format(id=id_, reason=reason),
            "patches/torch/v2/series": "a.patch\nb.patch\n",
            "patches/torch/v2/a.patch": _PATCH.format(id=id_, reason=reason),
            "patches/torch/v2/b.patch": _PATCH.format(id="C01", reason="build"),
            "patches/torch/catalogue.json": json.dumps([{**_ENTRY, **(entry or {})}]),
            "tests/files_test.py": "def test_open() -> None:\n\n\ndef test_log(x: int) -> None:\n",
        },
    )
    catalogue.fix(written)
    return tree.Tree(written.root, written.paths)


def test_the_table_has_patches_and_entries(tmp_path: pathlib.Path) -> None:
    files = _tree(tmp_path)
    assert [*catalogue.find(files)] == []
    page = files.text("patches/README.md")
    assert (
        "| F01 | `a.py` | patch (v1, v2) | Open paths through the seam | no: specific to a monorepo |"
        in page
    )
    assert "| C01 | `a.py` | patch (v2) | Open paths through the seam | no: how we build |" in page
    assert "| L01 | `_logging` | extension point | adopt | no: ours | `test_log` |" in page


def test_a_fix_for_everybody_is_upstreamable(tmp_path: pathlib.Path) -> None:
    assert "| Open paths through the seam | yes |" in _tree(tmp_path, reason="upstream").text(
        "patches/README.md"
    )


def test_the_page_says_how_much_it_is(tmp_path: pathlib.Path) -> None:
    page = _tree(tmp_path).text("patches/README.md")
    assert "1 patches in the series of v1, 2 in that of v2." in page
    assert "2 in the median, 2 at most." in page
    assert "3 ids: 2 by patches, 1 by extension points, 0 where nothing is needed." in page


def test_patches_that_are_big_by_habit_are_found(tmp_path: pathlib.Path) -> None:
    files = _tree(tmp_path)
    patch = tmp_path / "patches/torch/v1/a.patch"
    big = _PATCH.format(id="F01", reason="google").replace("@@ -1,1 +1,1 @@", "@@ -1,1 +1,12 @@")
    patch.write_text(big + "+new\n" * 11)
    catalogue.fix(files)
    (problem,) = catalogue.find(tree.Tree(tmp_path, files.paths))
    assert problem.what == "half of the patches change 13 lines or more, 12 are allowed"


def test_writing_it_again_changes_nothing(tmp_path: pathlib.Path) -> None:
    files = _tree(tmp_path)
    page = files.text("patches/README.md")
    catalogue.fix(files)
    assert (tmp_path / "patches/README.md").read_text() == page


def test_a_table_of_other_patches_is_found(tmp_path: pathlib.Path) -> None:
    files = _tree(tmp_path)
    (tmp_path / "patches/README.md").write_text(
        files.text("patches/README.md").replace("adopt", "take")
    )
    (problem,) = catalogue.find(tree.Tree(tmp_path, files.paths))
    assert (problem.path, problem.what[:9]) == ("patches/README.md", "the table")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"id": "F01"}, "F01 is also in"),
        ({"id": "logging"}, "'logging' is not an id"),
        ({"kind": "magic"}, "L01: kind is 'magic'"),
        ({"test": ""}, "L01 has no test"),
        ({"test": "tests/files_test.py::test_lo"}, "L01: no test"),
        ({"test": "tests/gone_test.py::test_log"}, "L01: no test"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: pathlib.Path, entry: dict[str, str], message: str
) -> None:
    (problem,) = catalogue.find(_tree(tmp_path, entry=entry))
    assert message in problem.what


def test_an_entry_without_a_key_is_named(tmp_path: pathlib.Path) -> None:
    files = _tree(tmp_path)
    (tmp_path / "patches/torch/catalogue.json").write_text('[{"id": "L01"}]')
    (problem,) = catalogue.find(tree.Tree(tmp_path, files.paths))
    assert "KeyError('spot')" in problem.what


def test_a_tree_without_a_catalogue_has_none(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.py": ""})
    catalogue.fix(files)
    assert [*catalogue.find(files)] == []
