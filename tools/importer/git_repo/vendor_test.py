# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.git_repo import (
    LocalEditsError,
    Outcome,
    Person,
    Place,
    Result,
    Source,
    vendor,
)
from tools.importer.git_repo.client import Client
from tools.importer.git_repo.fixup import fixup_patch
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
    what: Source,
    *,
    at: str = AT,
    keep: tuple[str, ...] = ("torch/google/**",),
    branch: str | None = None,
    dry_run: bool = False,
) -> Result:
    with opened(directory) as repository:
        return vendor(
            repository,
            what,
            Place(at, keep, branch),
            author=WHO,
            when=WHEN,
            report=Lines(),
            dry_run=dry_run,
        )


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    repo = new_repository(tmp_path / "mono")
    commit_files(repo, {"README": b"ours\n", "third_party/py/BUILD": b"# ours\n"})
    return repo


def on_disk(directory: Path) -> dict[str, Blob]:
    found: dict[str, Blob] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_symlink():
            found[name] = Blob(os.fsencode(os.readlink(path)), SYMLINK)
        elif path.is_file():
            mode = EXECUTABLE if os.access(path, os.X_OK) else "100644"
            found[name] = Blob(path.read_bytes(), mode)
    return found


def committed(repo: Path, revision: str = "HEAD", at: str = AT) -> dict[str, Blob]:
    with opened(repo) as repository:
        return {
            path: Blob(repository.blob(entry.oid), entry.mode)
            for path, entry in repository.files_at(revision, at).items()
        }


def clean(repo: Path) -> bool:
    return git(repo, "status", "--porcelain") == ""


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


def test_equal_trees_with_new_labels_are_a_commit_that_says_so(repo: Path) -> None:
    bring(repo, source(TREE))
    assert bring(repo, source(TREE, series="s2")).outcome is Outcome.COMMITTED
    assert "Series-Digest: s2" in git(repo, "log", "-1", "--format=%B")
    assert bring(repo, source(TREE, series="s2")).outcome is Outcome.UNCHANGED


def test_only_what_changed_is_written_and_what_upstream_deleted_goes(repo: Path) -> None:
    bring(repo, source(TREE))
    for path in (repo / AT).rglob("*"):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    git(repo, "status")  # a person's git sees the times
    after = {
        **TREE,
        "torch/__init__.py": Blob(b"import torch.nn\n", EXECUTABLE),
        "torch/link": Blob(b"../LICENSE", SYMLINK),
        "torch/bin": Blob(b"a file where a directory was\n"),
        "LICENSE/BSD": Blob(b"a directory where a file was\n"),
    }
    del after["torch/bin/run"], after["LICENSE"]
    after["torch/link"] = Blob(b"../LICENSE/BSD", SYMLINK)
    result = bring(repo, source(after, tag="v2"))

    assert result.difference.added == ("LICENSE/BSD", "torch/bin")
    assert result.difference.changed == ("torch/__init__.py", "torch/link")
    assert result.difference.deleted == ("LICENSE", "torch/bin/run")
    assert on_disk(repo / AT) == after == committed(repo)
    assert clean(repo)
    times = {
        path: (repo / AT / path).lstat().st_mtime_ns == 10**18
        for path in sorted(TREE.keys() & after)
    }
    assert [path for path, kept in times.items() if not kept] == ["torch/__init__.py", "torch/link"]


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
    git(repo, "gc", "--quiet", "--prune=now")  # the tree without kept files is no part of a commit
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
    assert committed(plain, at="torch").keys() == {
        path.removeprefix("torch/") for path in edited if path.startswith("torch/")
    }

    # With the fix-up in the series the edit is what is wanted, and no longer in the way.
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


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda at: (at / "LICENSE").write_text("edited\n"), "LICENSE"),
        (lambda at: (at / "LICENSE").unlink(), "LICENSE"),
        (lambda at: (at / "torch/bin/run").chmod(0o644), "torch/bin/run"),
        (lambda at: (at / "torch/untracked.py").write_text(""), "torch/untracked.py"),
    ],
)
def test_a_dirty_tree_is_refused(repo: Path, spoil: Callable[[Path], object], said: str) -> None:
    bring(repo, source(TREE))
    head = git(repo, "rev-parse", "HEAD")
    spoil(repo / AT)
    state = on_disk(repo / AT)
    with pytest.raises(UserError, match=f"local changes below {AT}.*{said}"):
        bring(repo, source({}, tag="v2"))
    assert git(repo, "rev-parse", "HEAD") == head
    assert on_disk(repo / AT) == state


def test_local_changes_elsewhere_and_staged_ones_stay(repo: Path) -> None:
    (repo / "README").write_text("edited\n")
    (repo / "staged").write_text("staged\n")
    git(repo, "add", "staged")
    bring(repo, source(TREE))
    assert git(repo, "status", "--porcelain").splitlines() == ["M README", "A  staged"]
    assert (repo / "README").read_text() == "edited\n"


def test_ignored_files_in_the_way_are_not_overwritten(repo: Path) -> None:
    commit_files(repo, {".gitignore": b"*.so\n"})
    (repo / AT).mkdir()
    (repo / AT / "lib.so").write_bytes(b"built here")
    head = git(repo, "rev-parse", "HEAD")
    with pytest.raises(UserError, match=r"local edits that would be lost: .*lib.so"):
        bring(repo, source({**TREE, "lib.so": Blob(b"upstream's")}))
    (repo / AT / "lib.so").unlink()
    (repo / AT / "LICENSE").mkdir()
    (repo / AT / "LICENSE/a.so").write_bytes(b"built here")
    with pytest.raises(UserError, match=r"local edits that would be lost: .*LICENSE/a.so"):
        bring(repo, source(TREE))
    assert git(repo, "rev-parse", "HEAD") == head


@pytest.mark.parametrize(
    "at",
    ["", "/tmp/x", "../x", "a/../../x", "a//b", "./a", ".git/x", "a/.GIT", "README", "README/x"],
)
def test_a_destination_outside_is_refused(repo: Path, at: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"--at {at}: ")):
        bring(repo, source(TREE), at=at)
    assert clean(repo)


def test_a_destination_through_a_link_is_refused(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    commit_files(repo, {"out": Blob(os.fsencode(tmp_path / "elsewhere"), SYMLINK)})
    with pytest.raises(UserError, match="out is a symbolic link"):
        bring(repo, source(TREE), at="out/torch")
    git(repo, "rm", "--quiet", "out")
    git(repo, "commit", "--quiet", "--message=gone")
    (repo / "out").symlink_to(tmp_path / "elsewhere")  # in the working tree only
    with pytest.raises(UserError, match="out is a symbolic link"):
        bring(repo, source(TREE), at="out/torch")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "d/../../x", "../torch/d/../../../x"])
def test_an_upstream_link_that_leaves_the_destination_is_refused(repo: Path, target: str) -> None:
    tree = {"torch/d": Blob(b"..", SYMLINK), "torch/l": Blob(target.encode(), SYMLINK)}
    with pytest.raises(UserError, match="torch/l is a symbolic link to"):
        bring(repo, source(tree))
    assert clean(repo)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ".git/config", "a/.Git/hooks/x"])
def test_an_upstream_path_that_leaves_the_destination_is_refused(repo: Path, path: str) -> None:
    with pytest.raises(UserError, match="Upstream's tree is damaged"):
        bring(repo, source({path: Blob(b"")}))


def test_another_branch_a_bare_and_an_empty_repository(tmp_path: Path, repo: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")
    bring(repo, source(TREE), branch="refs/heads/imports")
    assert git(repo, "rev-parse", "HEAD") == head
    assert committed(repo, "imports") == TREE
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


def test_detached_head_and_a_merge_under_way_are_refused(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    with pytest.raises(UserError, match="--branch"):
        bring(repo, source(TREE))
    git(repo, "checkout", "--quiet", "main")
    (repo / ".git/MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD") + "\n")
    with pytest.raises(UserError, match="in the middle of a merge"):
        bring(repo, source(TREE))


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


def test_the_repositorys_attributes_hold_in_the_working_tree(repo: Path) -> None:
    commit_files(repo, {".gitattributes": b"*.bat text eol=crlf\n"})
    bring(repo, source({"a.bat": Blob(b"x\ny\n")}))
    assert (repo / AT / "a.bat").read_bytes() == b"x\r\ny\r\n"
    assert clean(repo)
    assert bring(repo, source({"a.bat": Blob(b"z\n")}, tag="v2")).outcome is Outcome.COMMITTED
    assert (repo / AT / "a.bat").read_bytes() == b"z\r\n"


def test_a_sparse_checkout_is_refused_before_anything_moves(repo: Path) -> None:
    bring(repo, source(TREE))
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "sparse-checkout", "set", "--no-cone", "/README")
    with pytest.raises(UserError, match="git sparse-checkout add"):
        bring(repo, source({**TREE, "LICENSE": Blob(b"new\n")}, tag="v2"))
    assert git(repo, "rev-parse", "HEAD") == head


def test_killed_anywhere_it_is_the_old_tree_or_the_new_one(tmp_path: Path) -> None:
    """Killed at the n-th call of git or of rename, for each n, and run again."""
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


def test_two_at_a_time_are_refused(repo: Path) -> None:
    script = f"import fcntl,sys,time\nf=open({str(repo / '.git/importer.lock')!r},'w')\n"
    script += "fcntl.flock(f,fcntl.LOCK_EX)\nprint('held',flush=True)\ntime.sleep(60)\n"
    holder = subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout
    holder.stdout.readline()
    with pytest.raises(UserError, match="another import is at work"):
        bring(repo, source(TREE))
    holder.kill()
    holder.communicate()
    bring(repo, source(TREE))


def test_a_branch_that_moved_meanwhile_is_not_overwritten(repo: Path) -> None:
    class Racing(DictSnapshot):
        def read(self, path: str) -> Blob | None:
            if not (repo / "theirs").exists():
                commit_files(repo, {"theirs": b"theirs\n"})
            return super().read(path)

    racing = Source("torch", "v1", COMMIT, "s", 0, Racing("v1", TREE))
    with pytest.raises(UserError, match="moved to .* meanwhile; nothing was changed"):
        bring(repo, racing)
    assert git(repo, "log", "-1", "--format=%s") == "change"
    assert clean(repo)


_NAMES = st.sampled_from(["a", "a/b", "a/b/c", "d", "d/e", "f.py"])
_BLOBS = st.builds(Blob, st.binary(max_size=8), st.sampled_from(["100644", EXECUTABLE]))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.dictionaries(_NAMES, _BLOBS, max_size=4), min_size=2, max_size=4))
def test_any_tree_follows_any_other(
    tmp_path_factory: pytest.TempPathFactory, trees: list[dict[str, Blob]]
) -> None:
    repo = new_repository(tmp_path_factory.mktemp("any") / "mono")
    for number, tree in enumerate(trees):
        plain = {path: blob for path, blob in tree.items() if not _is_below(path, tree)}
        bring(repo, source(plain, tag=f"v{number}"))
        assert on_disk(repo / AT) == plain == committed(repo)
        assert clean(repo)


def _is_below(path: str, tree: Mapping[str, Blob]) -> bool:
    return any(path.startswith(f"{other}/") for other in tree)


def _killed(calls: int, action: Callable[[], object]) -> bool:
    """Run `action` in a process that is killed at its n-th call of git or rename."""
    child = os.fork()
    if child == 0:
        left = calls

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
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
