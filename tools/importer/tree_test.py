# SPDX-License-Identifier: Apache-2.0
"""Test that the tree hash depends only on names, contents, executable bits and link targets."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tools.importer.tree import file_digest, hash_entries, tree_entries, tree_hash


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.py").write_bytes(b"x = 1\n")
    (tmp_path / "a.py").write_bytes(b"")
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("a/x.py")
    return tmp_path


def test_the_hash_is_as_documented(tree: Path) -> None:
    def sha(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    rows = (
        f"100644 {sha(b'')} a.py\n"
        f"100644 {sha(bytes('x = 1' + chr(10), 'ascii'))} a/x.py\n"
        f"120000 {sha(b'a/x.py')} link\n"
        f"100755 {sha(bytes('#!/bin/sh' + chr(10), 'ascii'))} run\n"
    )
    assert tree_hash(tree) == sha(rows.encode())
    assert hash_entries(tree_entries(tree)) == tree_hash(tree)


def test_times_and_empty_directories_do_not_count(tree: Path) -> None:
    before = tree_hash(tree)
    os.utime(tree / "a.py", (1, 1))
    (tree / "empty").mkdir()
    (tree / "run").chmod(0o700)
    assert tree_hash(tree) == before


@pytest.mark.parametrize("change", ["content", "name", "mode", "target", "added", "removed"])
def test_every_other_change_counts(tree: Path, change: str) -> None:
    before = tree_hash(tree)
    if change == "content":
        (tree / "a.py").write_bytes(b"\n")
    elif change == "name":
        (tree / "a.py").rename(tree / "b.py")
    elif change == "mode":
        (tree / "run").chmod(0o644)
    elif change == "target":
        (tree / "link").unlink()
        (tree / "link").symlink_to("a.py")
    elif change == "added":
        (tree / "new").touch()
    else:
        (tree / "a" / "x.py").unlink()
    assert tree_hash(tree) != before


def test_a_link_in_place_of_the_root_is_followed(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "site"
    link.symlink_to(tree)
    assert tree_hash(link) == tree_hash(tree)


def test_large_files_are_read_whole(tmp_path: Path) -> None:
    data = bytes(range(256)) * (9 << 10)  # takes three reads, the last of which is shorter
    (tmp_path / "large").write_bytes(data)
    assert file_digest(tmp_path / "large") == hashlib.sha256(data).hexdigest()
