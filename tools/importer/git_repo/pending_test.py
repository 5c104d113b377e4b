# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.git_repo import (
    Outcome,
)
from tools.importer.git_repo.client import Client
from tools.importer.git_repo.git_fixture import commit_files, git, new_repository
from tools.importer.git_repo.vendor_fixture import (
    AT,
    TREE,
    bring,
    clean,
    committed,
    new_monorepo,
    on_disk,
    source,
)
from tools.importer.snapshot import Blob


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    return new_monorepo(tmp_path / "mono")


@pytest.mark.full
def test_killed_anywhere_it_is_the_old_tree_or_the_new_one(tmp_path: Path) -> None:
    """For each n, kill the run at its n-th git call or file operation, then run it again."""
    after = {**TREE, "torch/__init__.py": Blob(b"new\n"), "torch/new.py": Blob(b"n\n")}
    del after["LICENSE"]
    template = new_repository(tmp_path / "mono")
    commit_files(template, {"README": b"ours\n"})
    bring(template, source(TREE))
    old = git(template, "rev-parse", "HEAD")
    outcomes = set()
    for calls in range(1, 60):
        repo = tmp_path / f"mono{calls}"
        shutil.copytree(template, repo, symlinks=True)
        killed = _killed(calls, lambda repo=repo: bring(repo, source(after, tag="v2")))  # type: ignore[misc]
        head = git(repo, "rev-parse", "HEAD")
        assert committed(repo) == (TREE if head == old else after)
        again = bring(repo, source(after, tag="v2"))
        outcomes.add((head == old, again.caught_up))
        assert on_disk(repo / AT) == after
        assert clean(repo)
        assert not list((repo / ".git").glob("import-*"))
        assert not (repo / ".git/importer-pending.json").exists()
        if not killed:
            break
    else:
        pytest.fail("it never ran to its end")
    assert outcomes == {(True, False), (False, True), (False, False)}


@pytest.mark.full
def test_a_killed_run_does_not_lose_what_was_edited_since(repo: Path) -> None:
    bring(repo, source(TREE))
    after = {**TREE, "torch/__init__.py": Blob(b"new\n"), "torch/nn/__init__.py": Blob(b"new\n")}
    head = git(repo, "rev-parse", "HEAD")
    for calls in range(1, 60):
        assert _killed(calls, lambda: bring(repo, source(after, tag="v2")))
        if git(repo, "rev-parse", "HEAD") != head:
            break
    (repo / AT / "torch/__init__.py").write_text("edited\n")
    with pytest.raises(UserError, match="local edits that would be lost: .*torch/__init__.py"):
        bring(repo, source(after, tag="v2"))
    assert (repo / AT / "torch/__init__.py").read_text() == "edited\n"
    git(repo, "checkout", "HEAD", "--", f"{AT}/torch/__init__.py")
    bring(repo, source(after, tag="v2"))
    assert on_disk(repo / AT) == after
    assert clean(repo)


def test_a_full_disk_is_said_and_the_next_run_goes_on(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(repo, source(TREE))
    after = {**TREE, "a": Blob(b"a"), "torch/__init__.py": Blob(b"new\n")}
    head = git(repo, "rev-parse", "HEAD")
    shutil.move(repo / ".git/objects/pack", repo / ".git/pack")
    (repo / ".git/objects/pack").write_text("in the way")
    many = {**after, **{f"many/{number}": Blob(b"%d" % number) for number in range(200)}}
    with pytest.raises(EnvironmentProblem, match="git fast-import .*: exit status"):
        bring(repo, source(many, tag="v2"))
    assert git(repo, "rev-parse", "HEAD") == head
    (repo / ".git/objects/pack").unlink()
    shutil.move(repo / ".git/pack", repo / ".git/objects/pack")

    def full(staged: str | Path, target: str | Path) -> None:
        if AT in str(target):
            raise OSError(errno.ENOSPC, "No space left on device", target)
        os.rename(staged, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(
        EnvironmentProblem, match="No space left on device.*continues where it stopped"
    ):
        bring(repo, source(after, tag="v2"))
    monkeypatch.undo()
    assert git(repo, "rev-parse", "HEAD") != head
    assert on_disk(repo / AT) == TREE
    again = bring(repo, source(after, tag="v2"))
    assert (again.outcome, again.caught_up) == (Outcome.UNCHANGED, True)
    assert on_disk(repo / AT) == after
    assert clean(repo)


def _killed(calls: int, action: Callable[[], object]) -> bool:
    """Run `action` in a process that is killed at its `calls`-th git call or file operation."""
    child = os.fork()
    if child == 0:
        remaining = calls

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal remaining
                remaining -= 1
                if remaining == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **kwargs)

            return call

        Client.start = counted(Client.start)  # type: ignore[method-assign]
        os.replace = counted(os.replace)
        os.unlink = counted(os.unlink)
        try:
            action()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
