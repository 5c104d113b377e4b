# SPDX-License-Identifier: Apache-2.0
"""Test support: git repositories that need no network or user configuration."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.importer.engine import base_files, record_base
from tools.importer.git_repo.commit_snapshot import CommitSnapshot
from tools.importer.git_repo.repository import Repository
from tools.importer.report import Progress
from tools.importer.series import Series, load_series
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

HEADER = """Subject: [x] Make {name}
Owner: packaging
Reason: {reason}
Upstream: None yet
Extension-point-considered: None
Test: some_test.py::test_it
"""


def git(directory: Path, *arguments: str, data: bytes | None = None) -> str:
    """Run git as a user would and return its output. A failing assertion shows git's errors."""
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
    """Create an empty repository whose branch is `main`."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))
    return directory


def commit_files(
    directory: Path, files: Mapping[str, bytes | Blob | None], message: str = "change"
) -> str:
    """Write files (None deletes one), commit everything, and return the commit."""
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


def make_series(
    directory: Path,
    upstream: Path,
    commit: str,
    patches: Mapping[str, tuple[str, Mapping[str, bytes | Blob | None]]],
    *,
    prose: str = "",
) -> Series:
    """Create a patch series for `commit` from git diffs. `patches` maps names to (reason, files).

    The base of the series is also recorded. The branch in `upstream` is unchanged afterwards.
    """
    commit = git(upstream, "rev-parse", commit)
    branch = git(upstream, "symbolic-ref", "--short", "HEAD")
    git(upstream, "checkout", "--quiet", "--detach", commit)
    directory.mkdir(parents=True)
    for name, (reason, files) in patches.items():
        commit_files(upstream, files)
        diff = subprocess.run(
            ["git", "diff", "--binary", "--full-index", "--find-renames", "HEAD^", "HEAD"],
            cwd=upstream,
            env={**os.environ, **ENVIRONMENT},
            capture_output=True,
            check=True,
        ).stdout
        header = HEADER.format(name=name.replace("-", " "), reason=reason)
        text = f"{header}\n\n{prose}" if prose else header
        (directory / f"{name}.patch").write_bytes(text.encode() + b"\n" + diff)
    (directory / "series").write_text("".join(f"{name}.patch\n" for name in patches))
    series = load_series(directory)
    with opened(upstream) as repository:
        base = record_base(series, CommitSnapshot(repository, commit))
    for file, data in base_files(base).items():
        (directory / file).write_bytes(data)
    git(upstream, "checkout", "--quiet", branch)
    return series


@contextmanager
def opened(directory: Path) -> Iterator[Repository]:
    """Open a repository for one step of a test."""
    repository = Repository.open(directory)
    try:
        yield repository
    finally:
        repository.close()


class Lines:
    """A Report that records its lines."""

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
        """Do nothing."""
