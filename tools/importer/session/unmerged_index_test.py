# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tools.importer.session.conflict import DIRECTORY, changed_files, unsettled
from tools.importer.session.unfinished import Stop, StopFile
from tools.importer.session.unmerged_index import (
    added_paths,
    is_mergetools,
    write_repository,
)
from tools.importer.snapshot import EXECUTABLE, REGULAR, Blob

_MARKED = b"a\n<<<<<<< ours\nx\n||||||| base\n=======\ny\n>>>>>>> theirs\nb"


def _git(directory: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=directory, check=True, capture_output=True
    ).stdout


def test_paths_and_modes_are_as_git_writes_them(tmp_path: Path) -> None:
    paths = [
        "z",
        "a b",
        "dir/\u00e9.py",
        "dir/" + "x" * 200,
        "A",
        *(f"{n}" * n for n in range(1, 9)),
    ]
    write_repository(tmp_path, {path: Blob(_MARKED, EXECUTABLE) for path in paths})
    rows = _git(tmp_path, "ls-files", "--stage", "-z").decode().split("\0")[:-1]
    assert len(rows) == 3 * len(paths)
    assert {row.split("\t")[1] for row in rows} == set(paths)
    assert {row.split()[0] for row in rows} == {"100755"}
    versions = [_git(tmp_path, "show", f":{stage}:z") for stage in (1, 2, 3)]
    assert versions == [b"a\nb", b"a\nx\nb", b"a\ny\nb"]


@pytest.mark.parametrize("data", [b"", b"no markers\n", _MARKED[:30], b"\0" + _MARKED[:9]])
def test_a_file_without_whole_markers_is_not_in_the_index(tmp_path: Path, data: bytes) -> None:
    write_repository(tmp_path, {"a": Blob(data)})
    assert _git(tmp_path, "ls-files", "--stage") == b""


def test_an_unchanged_file_is_settled_once_it_is_added(tmp_path: Path) -> None:
    directory = tmp_path / DIRECTORY
    directory.mkdir()
    (directory / "a").write_bytes(b"as it is\n")
    write_repository(directory, {"a": Blob(b"as it is\n")})
    digest = hashlib.sha256(b"as it is\n").hexdigest()
    stop = Stop("a.patch", "conflict", {"a": StopFile(digest, REGULAR, "the name is taken")})
    assert [str(each) for each in unsettled(tmp_path, stop)] == ["a: untouched (the name is taken)"]
    _git(directory, "add", "a")
    assert added_paths(directory) == {"a"}
    assert unsettled(tmp_path, stop) == []
    assert changed_files(tmp_path, stop) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".git/index", True),
        ("lib/a.py.orig", True),
        ("lib/a_BASE_123.py", True),
        ("lib/a_LOCAL_1.py", True),
        ("lib/a_BASE_x.py", False),
        ("lib/b.py.orig", False),
        ("a.py.orig", False),
        (".gitignore", False),
    ],
)
def test_names_of_git_and_of_mergetool(path: str, expected: bool) -> None:
    assert is_mergetools(path, ["lib/a.py"]) is expected
