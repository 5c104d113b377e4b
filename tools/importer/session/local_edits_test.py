# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.session.local_edits import check_committed, uncommitted


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    for name in ("patches/a", "patches/b", "other"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    return root


def git(root: Path, *arguments: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *arguments], cwd=root, env=environment, check=True)


def test_edits_deletions_and_new_files_below_the_paths_are_found(repository: Path) -> None:
    patches = repository / "patches"
    assert uncommitted(repository, [patches]) == []
    assert check_committed(repository, [patches])
    (patches / "a").write_text("2")
    (patches / "b").unlink()
    (patches / "new ä").mkdir()
    (patches / "new ä/file\nname").write_text("")
    (repository / "other").write_text("nobody's business")
    assert uncommitted(repository, [patches]) == [
        "patches/a",
        "patches/b",
        "patches/new ä/file\nname",
    ]
    with pytest.raises(UserError, match="not committed: patches/a, patches/b, "):
        check_committed(repository, [patches])
    git(repository, "add", "-A")
    assert len(uncommitted(repository, [patches]) or ()) == 3


def test_the_users_configuration_hides_nothing(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (repository / "patches/new").write_text("")
    home = tmp_path / "home"
    home.mkdir()
    ignore = home / "ignore"
    ignore.write_text("new\n")
    (home / ".gitconfig").write_text(
        f"[status]\nshowUntrackedFiles = no\nrelativePaths = true\n[core]\nexcludesFile = {ignore}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    assert uncommitted(repository, [repository / "patches"]) == ["patches/new"]


def test_a_workspace_without_git_cannot_tell(tmp_path: Path) -> None:
    assert uncommitted(tmp_path, [tmp_path]) is None
    assert not check_committed(tmp_path, [tmp_path])


def test_a_damaged_repository_is_the_machines_problem(repository: Path) -> None:
    (repository / ".git/index").write_bytes(b"damaged")
    with pytest.raises(EnvironmentProblem, match="git status ended with 128"):
        uncommitted(repository, [repository])
