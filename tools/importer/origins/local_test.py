# SPDX-License-Identifier: Apache-2.0
"""Test local archives and directories as origins."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.origins import open_pin, resolve
from tools.importer.origins.origin_fixtures import Lines, make_project
from tools.importer.project import Project
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob
from tools.importer.tree import file_digest, tree_hash


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_project(tmp_path / "workspace")


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    root = tmp_path / "upstream"
    (root / "torch").mkdir(parents=True)
    (root / "torch" / "x.py").write_bytes(b"x\n")
    (root / "torch" / "latin-\udce9").write_bytes(b"")
    (root / "run").write_bytes(b"#!")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("torch")
    return root


def test_a_directory(project: Project, tree: Path) -> None:
    snapshot = resolve(project, Lines(), tag="v1.0.0", origin=str(tree))
    assert snapshot.pin == {
        "kind": "tree",
        "tag": "v1.0.0",
        "path": str(tree),
        "hash": tree_hash(tree),
    }
    assert sorted(snapshot.paths()) == ["link", "run", "torch/latin-\udce9", "torch/x.py"]
    assert snapshot.read("run") == Blob(b"#!", EXECUTABLE)
    assert snapshot.read("link") == Blob(b"torch", SYMLINK)
    assert snapshot.read("torch") is None
    assert (snapshot.label, snapshot.commit, snapshot.natives) == ("v1.0.0", None, False)
    assert snapshot.carries("anything")
    assert open_pin(project, Lines(), snapshot.pin).read("torch/x.py") == Blob(b"x\n")


def test_a_directory_without_a_tag_is_named_by_its_hash(project: Project, tree: Path) -> None:
    snapshot = resolve(project, Lines(), origin=str(tree))
    assert snapshot.label == f"tree-{tree_hash(tree)[:12]}"


def test_a_worktrees_file_of_git_is_no_part(project: Project, tree: Path) -> None:
    (tree / "torch" / ".git").write_text("gitdir: elsewhere")
    assert "torch/.git" not in resolve(project, Lines(), origin=str(tree)).paths()


def test_a_directory_that_changes_during_the_import(project: Project, tree: Path) -> None:
    snapshot = resolve(project, Lines(), origin=str(tree))
    (tree / "torch" / "x.py").write_bytes(b"y\n")
    with pytest.raises(UserError, match="torch/x.py: changed while it was imported"):
        snapshot.read("torch/x.py")
    (tree / "run").unlink()
    with pytest.raises(UserError, match="run: changed while it was imported"):
        snapshot.read("run")


def test_a_directory_that_changed_since_names_both_hashes(project: Project, tree: Path) -> None:
    snapshot = resolve(project, Lines(), origin=str(tree))
    (tree / "torch" / "x.py").write_bytes(b"y\n")
    message = f"the tree's hash is {tree_hash(tree)}, the pin says {snapshot.pin['hash']}"
    with pytest.raises(UserError, match=message):
        open_pin(project, Lines(), snapshot.pin)


def test_directories_that_are_refused(project: Project, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: no file in it"):
        resolve(project, Lines(), origin=str(tmp_path / "empty"))
    (tree / "out").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="the link 'out' leads out of the tree"):
        resolve(project, Lines(), origin=str(tree))
    (tree / "out").unlink()
    os.mkfifo(tree / "pipe")
    with pytest.raises(UserError, match="pipe: neither file, link nor directory"):
        resolve(project, Lines(), origin=str(tree))


def _pack(tree: Path, archive: Path) -> Path:
    (tree / "torch" / "latin-\udce9").unlink(missing_ok=True)
    subprocess.run(["tar", "-C", tree.parent, "-caf", archive, tree.name], check=True)
    return archive


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
def test_an_archive(project: Project, tree: Path, tmp_path: Path, suffix: str) -> None:
    archive = _pack(tree, tmp_path / f"a.{suffix}")
    snapshot = resolve(project, Lines(), tag="v1.0.0", origin=str(archive))
    digest = file_digest(archive)
    assert snapshot.pin == {
        "kind": "tarball",
        "tag": "v1.0.0",
        "path": str(archive),
        "sha256": digest,
    }
    assert sorted(snapshot.paths()) == ["link", "run", "torch/x.py"]
    assert snapshot.read("run") == Blob(b"#!", EXECUTABLE)
    archive.unlink()
    assert open_pin(project, Lines(), snapshot.pin).read("torch/x.py") == Blob(b"x\n")


def test_another_archive_under_the_name(project: Project, tree: Path, tmp_path: Path) -> None:
    archive = _pack(tree, tmp_path / "a.tar")
    snapshot = resolve(project, Lines(), tag="v1.0.0", origin=str(archive))
    for cached in (tmp_path / "cache").rglob("*.zip"):
        cached.unlink()
    (tree / "new").touch()
    _pack(tree, archive)
    digest = file_digest(archive)
    with pytest.raises(
        UserError, match=f"sha256 is {digest}, the pin says {snapshot.pin['sha256']}"
    ):
        open_pin(project, Lines(), snapshot.pin)


def test_what_is_no_origin(project: Project, tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="'/nowhere' is no origin: not archive, debian, directory, git, sdist, wheel or",
    ):
        resolve(project, Lines(), tag="v1.0.0", origin="/nowhere")
    (tmp_path / "text").write_text("text")
    with pytest.raises(UserError, match="text: not a whole archive"):
        resolve(project, Lines(), tag="v1.0.0", origin=str(tmp_path / "text"))


@pytest.mark.parametrize("tag", ["../x", "/x", "-x", "a//b", "a b", "", "v1/..", "v1/.git"])
def test_tags_that_are_no_name(project: Project, tree: Path, tag: str) -> None:
    with pytest.raises(UserError, match="cannot be the name of a tag"):
        resolve(project, Lines(), tag=tag, origin=str(tree))
