# SPDX-License-Identifier: Apache-2.0
"""The work tree reports exactly the files that the user changed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tools.importer.editing.work_tree import LARGEST, WorkTree, is_text
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.report import JsonReport
from tools.importer.snapshot import Blob

_QUIET = JsonReport(io.StringIO())
_BLOBS = {
    "a/x.py": Blob(b"x = 1\n"),
    "a/y.orig": Blob(b"upstream's own\n"),
    "run": Blob(b"#!/bin/sh\n", "100755"),
    "link": Blob(b"a/x.py", "120000"),
}


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> WorkTree:
    tree = WorkTree(tmp_path / "edit")
    assert tree.write(_BLOBS.items(), _QUIET, total=len(_BLOBS)) == len(_BLOBS)
    return tree


def test_nothing_changed(tree: WorkTree) -> None:
    (tree.files / "a" / "x.py").touch()
    assert tree.changes(_QUIET) == {}


def test_every_kind_of_change(tree: WorkTree) -> None:
    (tree.files / "a" / "x.py").write_bytes(b"x = 2\n")
    (tree.files / "a" / "y.orig").write_bytes(b"ours\n")
    (tree.files / "run").chmod(0o600)
    (tree.files / "link").unlink()
    (tree.files / "link").symlink_to("run")
    (tree.files / "b").mkdir()
    (tree.files / "b" / "new").write_bytes(b"")
    assert tree.changes(_QUIET) == {
        "a/x.py": Blob(b"x = 2\n"),
        "a/y.orig": Blob(b"ours\n"),
        "b/new": Blob(b""),
        "link": Blob(b"run", "120000"),
        "run": Blob(b"#!/bin/sh\n"),
    }
    (tree.files / "run").unlink()
    assert tree.changes(_QUIET)["run"] is None


@pytest.mark.parametrize(
    "name", ["x.pyc", "__pycache__/x", "x.py~", ".x.py.swp", "x.orig", "x.rej"]
)
def test_what_tools_leave_behind_is_no_change(tree: WorkTree, name: str) -> None:
    (tree.files / "a" / "__pycache__").mkdir()
    (tree.files / "a" / name).write_bytes(b"left")
    assert tree.changes(_QUIET) == {}


def test_a_pipe_is_refused(tree: WorkTree) -> None:
    os.mkfifo(tree.files / "pipe")
    with pytest.raises(UserError, match="pipe: neither a file nor a link. Move it out"):
        tree.changes(_QUIET)


def test_names_of_any_bytes(tree: WorkTree) -> None:
    name = os.fsdecode(b'a/\xff\n"x')
    (tree.files / name).write_bytes(b"x")
    assert tree.changes(_QUIET) == {name: Blob(b"x")}


def test_a_tree_that_is_gone(tree: WorkTree) -> None:
    for path in sorted(tree.files.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    tree.files.rmdir()
    with pytest.raises(UserError, match="tree: no such directory. `import.py abort`"):
        tree.changes(_QUIET)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "edit").touch()
    with pytest.raises(EnvironmentProblem, match="edit"):
        WorkTree(tmp_path / "edit").write(_BLOBS.items(), _QUIET, total=1)


def test_texts() -> None:
    assert is_text(Blob(b"x" * LARGEST))
    assert not is_text(Blob(b"x" * (LARGEST + 1)))
    assert not is_text(Blob(b"x\0"))
