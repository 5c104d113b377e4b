# SPDX-License-Identifier: Apache-2.0
"""Real repositories for the tests of this room: offline, and with nobody's configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.importer.git_repo import Repository
from tools.importer.report import Progress
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "LC_ALL": "C",
}


def git(directory: Path, *arguments: str, data: bytes | None = None) -> str:
    """Run git as a person would, and return what it prints; a failure shows its words."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={**os.environ, **ENVIRONMENT},
        input=data,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def new_repository(directory: Path, *, bare: bool = False) -> Path:
    """Make an empty repository whose branch is `main`."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    return directory


def commit_files(
    directory: Path, files: Mapping[str, bytes | Blob | None], message: str = "change"
) -> str:
    """Write (None: delete) files, commit everything, and return the commit."""
    for path, content in files.items():
        target = directory / path
        if target.is_symlink() or target.is_file():
            target.unlink()
        if content is None:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        blob = content if isinstance(content, Blob) else Blob(content)
        if blob.mode == SYMLINK:
            target.symlink_to(os.fsdecode(blob.data))
            continue
        target.write_bytes(blob.data)
        target.chmod(0o755 if blob.mode == EXECUTABLE else 0o644)
    git(directory, "add", "--all", "--force")
    git(directory, "commit", "--quiet", "--allow-empty", f"--message={message}")
    return git(directory, "rev-parse", "HEAD")


@contextmanager
def opened(directory: Path) -> Iterator[Repository]:
    """Open a repository for the length of a test's step."""
    repository = Repository.open(directory)
    try:
        yield repository
    finally:
        repository.close()


class Lines:
    """A report that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.answer: Mapping[str, object] = {}

    def say(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Progress]:
        yield _Step()

    def result(self, data: Mapping[str, object]) -> None:
        self.answer = data


class _Step:
    def advance(self, n: int = 1) -> None:
        """Nobody looks."""
