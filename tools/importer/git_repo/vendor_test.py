# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.git_repo import (
    LocalEditsError,
    Outcome,
    Source,
)
from tools.importer.git_repo.exclusive import exclusive
from tools.importer.git_repo.fixup import fixup_patch
from tools.importer.git_repo.git_fixture import commit_files, git, new_repository, opened
from tools.importer.git_repo.vendor_fixture import (
    AT,
    COMMIT,
    TREE,
    bring,
    clean,
    committed,
    new_monorepo,
    on_disk,
    source,
)
from tools.importer.snapshot import Blob, DictSnapshot


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    return new_monorepo(tmp_path / "mono")


def test_the_tree_is_one_commit_with_labels_and_the_checkout_follows(repo: Path) -> None:
    before = git(repo, "rev-parse", "HEAD")
    result = bring(repo, source(TREE))

    assert result.outcome is Outcome.COMMITTED
    assert git(repo, "rev-parse", "HEAD") == result.commit
    assert git(repo, "rev-parse", "HEAD^") == before
    assert committed(repo) == TREE == on_disk(repo / AT)
    assert clean(repo)
    assert git(repo, "show", "HEAD:third_party/py/BUILD") == "# ours"
    message = git(repo, "log", "-1", "--format=%an <%ae> %cn %aI%n%B")
    tree = git(repo, "rev-parse", f"HEAD:{AT}")
    assert message.splitlines() == [
        "Robot <robot@example.org> Robot 2026-01-02T03:04:05+00:00",
        "torch: import v1 with 3 patches",
        "",
        f"GitOrigin-RevId: {COMMIT}",
        "Imported-Project: torch",
        "Imported-Tag: v1",
        f"Imported-At: {AT}",
        "Imported-Keep: torch/google/**",
        f"Imported-Tree: {tree}",
        "Series-Digest: s1",
    ]
    git(repo, "fsck", "--strict")


def test_a_second_time_there_is_nothing_to_do(repo: Path) -> None:
    bring(repo, source(TREE))
    head = git(repo, "rev-parse", "HEAD")
    assert bring(repo, source(TREE)).outcome is Outcome.UNCHANGED
    assert git(repo, "rev-parse", "HEAD") == head


@pytest.mark.parametrize("destination", [AT, "third_party/c++/(torch)[1]", "caf\xe9/torch"])
def test_the_last_import_is_found_below_many_of_others(repo: Path, destination: str) -> None:
    bring(repo, source(TREE), destination=destination)
    message = git(repo, "log", "-1", "--format=%B")
    line = f"Imported-At: {destination}"
    others = [message.replace(line, f"{line}_x"), f"Like the import with this label:\n\n{line}"]
    for other in others:
        for _ in range(51):
            commit_files(repo, {}, other)
    head = git(repo, "rev-parse", "HEAD")
    assert bring(repo, source(TREE), destination=destination).outcome is Outcome.UNCHANGED
    assert git(repo, "rev-parse", "HEAD") == head


def test_equal_trees_with_new_labels_are_a_commit_that_says_so(repo: Path) -> None:
    bring(repo, source(TREE))
    assert bring(repo, source(TREE, series="s2")).outcome is Outcome.COMMITTED
    assert "Series-Digest: s2" in git(repo, "log", "-1", "--format=%B")
    assert bring(repo, source(TREE, series="s2")).outcome is Outcome.UNCHANGED


def test_kept_files_are_never_touched(repo: Path) -> None:
    bring(repo, source(TREE))
    own = {f"{AT}/torch/google/BUILD": b"ours\n", f"{AT}/torch/google/a/b.py": b"ours too\n"}
    commit_files(repo, own)
    (repo / AT / "torch/google/notes").write_text("not even committed\n")
    upstream = {**TREE, "torch/google/BUILD": Blob(b"theirs\n"), "torch/new": Blob(b"n\n")}
    assert bring(repo, source(upstream, tag="v2")).difference.added == ("torch/new",)

    assert (repo / AT / "torch/google/BUILD").read_bytes() == b"ours\n"
    assert (repo / AT / "torch/google/a/b.py").read_bytes() == b"ours too\n"
    assert (repo / AT / "torch/google/notes").exists()
    assert committed(repo)["torch/google/BUILD"].data == b"ours\n"
    assert bring(repo, source(upstream, tag="v2")).outcome is Outcome.UNCHANGED
    git(repo, "reflog", "expire", "--expire=now", "--all")
    # The recorded tree omits the files that --keep preserves, so no commit refers to it, and git gc
    # deletes it.
    git(repo, "gc", "--quiet", "--prune=now")
    assert bring(repo, source(TREE, tag="v3")).outcome is Outcome.COMMITTED


def test_an_upstream_file_where_kept_files_are_is_an_error(repo: Path) -> None:
    bring(repo, source(TREE))
    commit_files(repo, {f"{AT}/torch/google/BUILD": b"ours\n"})
    with pytest.raises(UserError, match="torch/google and torch/google/BUILD cannot both be"):
        bring(repo, source({**TREE, "torch/google": Blob(b"file\n")}))


def test_committed_edits_are_found_before_anything_moves(repo: Path, tmp_path: Path) -> None:
    bring(repo, source(TREE))
    head = commit_files(
        repo,
        {
            f"{AT}/torch/__init__.py": b"import torch.nn\nimport ours\n",
            f"{AT}/torch/bin/run": None,
            f"{AT}/torch/added.py": b"ours\n",
        },
    )
    objects = git(repo, "count-objects", "-v")
    with pytest.raises(LocalEditsError) as caught:
        bring(repo, source({**TREE, "torch/new": Blob(b"n\n")}, tag="v2"))
    text = str(caught.value)
    assert "\n" not in text
    assert "3 edited" in text
    for path in ("torch/__init__.py", "torch/bin/run", "torch/added.py", "--fixup FILE"):
        assert path in text
    assert git(repo, "rev-parse", "HEAD") == head
    assert git(repo, "count-objects", "-v") == objects

    patch = fixup_patch(caught.value.edits, AT)
    plain = new_repository(tmp_path / "plain")
    commit_files(plain, TREE)
    git(plain, "apply", "--index", "-", data=patch)
    edited = {**TREE, "torch/added.py": Blob(b"ours\n")}
    edited["torch/__init__.py"] = Blob(b"import torch.nn\nimport ours\n")
    del edited["torch/bin/run"]
    git(plain, "commit", "--quiet", "--message=fixed")
    assert committed(plain, destination="torch").keys() == {
        path.removeprefix("torch/") for path in edited if path.startswith("torch/")
    }

    # The series now contains the fix-up patch, so vendoring accepts the edit.
    assert bring(repo, source(edited, series="with-fixup")).outcome is Outcome.COMMITTED
    assert bring(repo, source({**edited, "n": Blob(b"")}, tag="v2")).outcome is Outcome.COMMITTED


def test_a_reverted_edit_is_no_edit(repo: Path) -> None:
    bring(repo, source(TREE))
    commit_files(repo, {f"{AT}/LICENSE": b"edited\n"})
    git(repo, "revert", "--no-edit", "HEAD")
    assert bring(repo, source({**TREE, "n": Blob(b"")}, tag="v2")).outcome is Outcome.COMMITTED


def test_an_amended_commit_is_seen_by_its_label(repo: Path) -> None:
    bring(repo, source(TREE))
    (repo / AT / "LICENSE").write_text("edited\n")
    git(repo, "commit", "--quiet", "--all", "--amend", "--no-edit")
    with pytest.raises(LocalEditsError, match="1 edited .*: LICENSE"):
        bring(repo, source({**TREE, "n": Blob(b"")}, tag="v2"))
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "--quiet", "--prune=now")
    with pytest.raises(UserError, match="does not hold the tree of its label"):
        bring(repo, source({**TREE, "n": Blob(b"")}, tag="v2"))


def test_a_copy_made_by_hand_is_adopted_if_it_is_equal(repo: Path) -> None:
    commit_files(repo, {f"{AT}/{path}": blob for path, blob in TREE.items()})
    assert bring(repo, source(TREE)).outcome is Outcome.COMMITTED
    commit_files(repo, {f"{AT}/LICENSE": b"edited\n"})
    git(repo, "update-ref", "-d", "refs/heads/main")
    git(repo, "commit", "--quiet", "--message=all of it, with no history")
    with pytest.raises(LocalEditsError, match="no vendored commit is in its history: LICENSE"):
        bring(repo, source(TREE))


def test_another_branch_a_bare_and_an_empty_repository(tmp_path: Path, repo: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")
    bring(repo, source(TREE), branch="refs/heads/imports")
    assert git(repo, "rev-parse", "HEAD") == head
    assert committed(repo, "imports") == TREE
    assert git(repo, "rev-parse", "imports^") == head  # a new branch starts at HEAD
    assert not (repo / AT).exists()

    bare = new_repository(tmp_path / "bare.git", bare=True)
    bring(bare, source(TREE))
    assert committed(bare, "main") == TREE
    assert git(bare, "rev-list", "--count", "main") == "1"

    empty = new_repository(tmp_path / "empty")
    bring(empty, source(TREE))
    assert on_disk(empty / AT) == TREE
    assert clean(empty)

    git(repo, "worktree", "add", "--quiet", str(tmp_path / "linked"), "imports")
    with pytest.raises(UserError, match="is checked out in .*linked"):
        bring(repo, source({}, tag="v2"), branch="refs/heads/imports")
    bring(tmp_path / "linked", source({"a": Blob(b"a\n")}, tag="v2"))
    assert on_disk(tmp_path / "linked" / AT) == {"a": Blob(b"a\n")}
    assert clean(tmp_path / "linked")


def test_a_dry_run_changes_nothing(repo: Path) -> None:
    before = git(repo, "count-objects", "-v"), git(repo, "rev-parse", "HEAD")
    result = bring(repo, source(TREE), dry_run=True)
    assert result.outcome is Outcome.WOULD_COMMIT
    assert result.difference.added == tuple(sorted(TREE))
    assert (git(repo, "count-objects", "-v"), git(repo, "rev-parse", "HEAD")) == before


def test_the_persons_settings_and_hooks_have_no_influence(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[core]\n autocrlf = true\n hooksPath = /nowhere\n attributesFile = /nowhere\n"
        "[user]\n useConfigOnly = true\n[commit]\n gpgSign = true\n"
        "[i18n]\n commitEncoding = latin1\n[status]\n showUntrackedFiles = no\n"
    )
    hook = repo / ".git/hooks/reference-transaction"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    for key, value in {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_DIR": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "no-index"),
        "GIT_AUTHOR_DATE": "1999-01-01T00:00:00Z",
        "LC_ALL": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(key, value)
    result = bring(repo, source(TREE))
    monkeypatch.undo()
    hook.unlink()
    assert on_disk(repo / AT) == TREE
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(repo), str(other))
    git(other, "reset", "--quiet", "--hard", "HEAD~1")
    assert bring(other, source(TREE)).commit == result.commit


def test_what_is_no_repository_is_said(tmp_path: Path, repo: Path) -> None:
    with pytest.raises(UserError, match="no such directory"):
        bring(tmp_path / "nowhere", source(TREE))
    with pytest.raises(UserError, match="not the top of a git repository. Clone"):
        bring(tmp_path, source(TREE))
    with pytest.raises(UserError, match=r"It is inside .*mono: name that"):
        bring(repo / "third_party", source(TREE))
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "sha256")
    with pytest.raises(UserError, match="its objects are sha256"):
        bring(tmp_path / "sha256", source(TREE))


def test_two_at_a_time_are_refused_and_the_dead_hold_no_lock(repo: Path) -> None:
    held, holds = os.pipe()
    child = os.fork()
    if child == 0:
        with opened(repo) as repository, exclusive(repository):
            os.write(holds, b"held")
            signal.pause()
    os.read(held, 4)
    with pytest.raises(UserError, match="another import is running"):
        bring(repo, source(TREE))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    bring(repo, source(TREE))


def test_a_branch_that_moved_meanwhile_is_not_overwritten(repo: Path) -> None:
    class Racing(DictSnapshot):
        def read(self, path: str) -> Blob | None:
            if not (repo / "theirs").exists():
                commit_files(repo, {"theirs": b"theirs\n"})
            return super().read(path)

    racing = Source("torch", "v1", COMMIT, "s", 0, Racing("v1", TREE))
    with pytest.raises(
        UserError, match="another process changed .*: it is now .*; nothing was done"
    ):
        bring(repo, racing)
    assert git(repo, "log", "-1", "--format=%s") == "change"
    assert clean(repo)


def test_a_directory_of_another_project_is_refused(repo: Path) -> None:
    bring(repo, source(TREE))
    with pytest.raises(UserError, match=f"{AT} holds torch, vendored by .*Give jax a directory"):
        bring(repo, dataclasses.replace(source(TREE), project="jax"))
