# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.git_repo import (
    Outcome,
)
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
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob
from tools.par.testing.budget import examples


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    return new_monorepo(tmp_path / "mono")


_NAMES = st.sampled_from(["a", "a/b", "a/b/c", "d", "d/e", "f.py"])
_BLOBS = st.builds(Blob, st.binary(max_size=8), st.sampled_from(["100644", EXECUTABLE]))


def test_only_what_changed_is_written_and_what_upstream_deleted_goes(repo: Path) -> None:
    bring(repo, source(TREE))
    for path in (repo / AT).rglob("*"):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    git(repo, "status")  # this makes git store the files' timestamps in its index
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
    assert [path for path, unchanged in times.items() if not unchanged] == [
        "torch/__init__.py",
        "torch/link",
    ]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda tree: (tree / "LICENSE").write_text("edited\n"), "LICENSE"),
        (lambda tree: (tree / "LICENSE").unlink(), "LICENSE"),
        (lambda tree: (tree / "torch/bin/run").chmod(0o644), "torch/bin/run"),
        (lambda tree: (tree / "torch/untracked.py").write_text(""), "torch/untracked.py"),
    ],
)
def test_a_dirty_tree_is_refused(repo: Path, spoil: Callable[[Path], object], message: str) -> None:
    bring(repo, source(TREE))
    head = git(repo, "rev-parse", "HEAD")
    spoil(repo / AT)
    state = on_disk(repo / AT)
    with pytest.raises(UserError, match=f"local changes below {AT}.*{message}"):
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


def test_detached_head_and_a_merge_under_way_are_refused(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    with pytest.raises(UserError, match="--branch"):
        bring(repo, source(TREE))
    git(repo, "checkout", "--quiet", "main")
    (repo / ".git/MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD") + "\n")
    with pytest.raises(UserError, match="in the middle of a merge"):
        bring(repo, source(TREE))


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


def test_a_lock_of_another_git_is_named(repo: Path) -> None:
    (repo / ".git/index.lock").touch()
    with pytest.raises(UserError, match="index.lock: another git is running"):
        bring(repo, source(TREE))


@settings(max_examples=examples(8), deadline=None)
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
