# SPDX-License-Identifier: Apache-2.0
"""Test that each changed path of a tree vendored in a real repository is reported."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.git_repo import Destination, Person, Source, vendor
from tools.importer.git_repo.git_fixture import Lines, commit_files, new_repository, opened
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob, DictSnapshot
from tools.importer.verify.vendored import check_vendored, read_vendored

_AT = "third_party/py/torch"
_SERIES = "5" * 64
_TREE = DictSnapshot(
    "v1",
    {
        "torch/__init__.py": Blob(b"import torch.nn\n"),
        "torch/run": Blob(b"#!/bin/sh\n", EXECUTABLE),
        "torch/link": Blob(b"run", SYMLINK),
        "torch/gone.py": Blob(b"gone\n"),
        "torch/google/upstream.py": Blob(b"upstream's, and kept out\n"),
    },
)


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    repo = new_repository(tmp_path / "mono")
    commit_files(repo, {"README": b"ours\n", f"{_AT}/torch/google/ours.py": b"ours\n"})
    with opened(repo) as repository:
        vendor(
            repository,
            Source("torch", "v1", None, _SERIES, 3, _TREE),
            Destination(_AT, ("torch/google/**",)),
            author=Person("Robot", "robot@example.org"),
            when=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            report=Lines(),
        )
    return repo


def _found(repo: Path, series: str = _SERIES) -> list[tuple[str, str]]:
    tree = read_vendored(repo, _AT)
    assert tree.labels.tag == "v1"
    differences = check_vendored(tree, _TREE, series, Lines())
    return [(each.kind.value, each.path) for each in differences]


def test_what_was_vendored_is_the_same(repo: Path) -> None:
    assert _found(repo) == []
    commit_files(repo, {f"{_AT}/torch/google/more.py": b"kept, and nobody's business\n"})
    assert _found(repo) == []


def test_every_path_is_named(repo: Path) -> None:
    commit_files(
        repo,
        {
            f"{_AT}/torch/__init__.py": b"import torch\n",
            f"{_AT}/torch/gone.py": None,
            f"{_AT}/torch/link": Blob(b"__init__.py", SYMLINK),
            f"{_AT}/torch/more.py": b"",
            f"{_AT}/torch/run": b"#!/bin/sh\n",
        },
    )
    assert _found(repo) == [
        ("changed", "torch/__init__.py"),
        ("missing", "torch/gone.py"),
        ("changed", "torch/link"),
        ("extra", "torch/more.py"),
        ("mode", "torch/run"),
    ]


def test_another_series_is_said(repo: Path) -> None:
    assert _found(repo, "6" * 64) == [("changed", "Series-Digest")]


def test_what_cannot_be_read(repo: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no commit of HEAD says that it vendored third_party/py/x"):
        read_vendored(repo, "third_party/py/x")
    with pytest.raises(UserError, match="no commit at refs/heads/other. Name a branch"):
        read_vendored(repo, _AT, "other")
    with pytest.raises(UserError):
        read_vendored(tmp_path / "nowhere", _AT)
