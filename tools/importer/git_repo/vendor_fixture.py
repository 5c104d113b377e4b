# SPDX-License-Identifier: Apache-2.0
"""Test support: vendor small trees into git repositories and inspect the results."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from pathlib import Path

from tools.importer.git_repo import Destination, Person, Result, Source, vendor
from tools.importer.git_repo.git_fixture import Lines, commit_files, git, new_repository, opened
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob, DictSnapshot

AT = "third_party/py/torch"
WHO = Person("Robot", "robot@example.org")
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
COMMIT = "c" * 40

TREE = {
    "torch/__init__.py": Blob(b"import torch.nn\n"),
    "torch/nn/__init__.py": Blob(b"crlf\r\nno newline"),
    "torch/bin/run": Blob(b"#!/bin/sh\n", EXECUTABLE),
    "torch/link": Blob(b"nn/__init__.py", SYMLINK),
    "torch/odd \xe9\n\"name'": Blob(bytes(range(256))),
    "LICENSE": Blob(b"BSD\n"),
}


def source(files: Mapping[str, Blob], *, tag: str = "v1", series: str = "s1") -> Source:
    return Source("torch", tag, COMMIT, series, 3, DictSnapshot(tag, files, commit=COMMIT))


def bring(
    directory: Path,
    upstream: Source,
    *,
    destination: str = AT,
    keep: tuple[str, ...] = ("torch/google/**",),
    branch: str | None = None,
    dry_run: bool = False,
) -> Result:
    with opened(directory) as repository:
        return vendor(
            repository,
            upstream,
            Destination(destination, keep, branch),
            author=WHO,
            when=WHEN,
            report=Lines(),
            dry_run=dry_run,
        )


def new_monorepo(directory: Path) -> Path:
    """Create a monorepo that contains a few files."""
    repo = new_repository(directory)
    commit_files(repo, {"README": b"ours\n", "third_party/py/BUILD": b"# ours\n"})
    return repo


def on_disk(directory: Path) -> dict[str, Blob]:
    files: dict[str, Blob] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink():
            files[name] = Blob(os.fsencode(os.readlink(path)), SYMLINK)
        elif path.is_file():
            mode = EXECUTABLE if os.access(path, os.X_OK) else "100644"
            files[name] = Blob(path.read_bytes(), mode)
    return files


def committed(repo: Path, revision: str = "HEAD", destination: str = AT) -> dict[str, Blob]:
    with opened(repo) as repository:
        return {
            path: Blob(repository.blob(entry.oid), entry.mode)
            for path, entry in repository.files_at(revision, destination).items()
        }


def clean(repo: Path) -> bool:
    return git(repo, "status", "--porcelain") == ""
