# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.git_repo.containment import Globs, check_links, path_fault
from tools.importer.git_repo.git_fixture import commit_files, git
from tools.importer.git_repo.vendor_fixture import (
    TREE,
    bring,
    clean,
    new_monorepo,
    source,
)
from tools.importer.snapshot import SYMLINK, Blob


@pytest.fixture(name="repo")
def _repo(tmp_path: Path) -> Path:
    return new_monorepo(tmp_path / "mono")


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("torch/google/**", "torch/google/a/b", True),
        ("torch/google/**", "torch/google", False),
        ("torch/google/**", "torch/googleX/a", False),
        ("**/BUILD", "BUILD", True),
        ("**/BUILD", "a/b/BUILD", True),
        ("**/BUILD", "a/XBUILD", False),
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("a[bc]d", "abd", True),
        ("a[!b]d", "abd", False),
        ("a?c", "a/c", False),
        ("a.c", "abc", False),
        ("a+(b)", "a+(b)", True),
    ],
)
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert (path in Globs(["nothing", glob])) is matches


def test_no_globs_match_nothing() -> None:
    assert "" not in Globs([])
    assert "a" not in Globs([])


_PARTS = st.sampled_from(["a", "b", "c", ".", "..", ""])
_TARGETS = st.lists(_PARTS, min_size=1, max_size=5).map("/".join).filter(bool)
_LINKS = st.dictionaries(st.sampled_from(["a", "b", "c/a", "c/b", "c/d/a"]), _TARGETS, min_size=1)


@given(_LINKS)
def test_a_link_is_refused_if_the_kernel_would_leave_the_tree(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]
) -> None:
    """Compare with the kernel, which follows real symlinks in a deep directory."""
    top = tmp_path_factory.mktemp("links").resolve()
    root = top / "1/2/3/4/5/6"
    (root / "c/d").mkdir(parents=True)
    for path, target in links.items():
        (root / path).symlink_to(target)
    outside = []
    for path in links:
        try:
            real = os.path.realpath(root / path, strict=False)
            (root / path).exists()  # exists() raises OSError for a symlink loop
        except OSError:
            continue
        if real != str(root) and not real.startswith(f"{root}/"):
            outside.append(path)
    if outside:
        with pytest.raises(UserError, match="symbolic link"):
            check_links(links, "upstream")


@pytest.mark.parametrize(
    "links",
    [
        {"a": "b", "b": "c/d"},
        {"c/a": "../b"},
        {"a/b/d": "../..", "x": "a/b/d/a"},
        {"a": "./././b"},
        {"broken": "not/there"},
    ],
)
def test_links_inside_are_fine(links: dict[str, str]) -> None:
    check_links(links, "upstream")


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ({"a": "/etc"}, "an absolute path"),
        ({"a": "../b"}, "outside the tree"),
        ({"a/b/d": "../..", "a/x": "b/d/../y"}, "outside the tree"),
        ({"a": "b", "b": "a"}, "a circle of links"),
        ({"a": ".git/hooks"}, "git's own directory"),
        ({"z": "/etc", "a": "z/passwd"}, "through z, which is an absolute path"),
    ],
)
def test_links_that_leave(links: dict[str, str], why: str) -> None:
    with pytest.raises(UserError, match=why):
        check_links(links, "upstream")


def test_plain_paths_have_no_fault() -> None:
    assert [path_fault(path) for path in ("a", "a/b.c/-d", "a/...", ".github/x", "é")] == [None] * 5


def test_paths_that_leave_have_one(tmp_path: Path) -> None:
    for path in ("", "/a", "a/../b", "..", "a//b", "a/", ".git/a", "a/.GIT/b", "a\0b", "a\\b"):
        assert path_fault(path), path


@pytest.mark.parametrize(
    "destination",
    ["", "/tmp/x", "../x", "a/../../x", "a//b", "./a", ".git/x", "a/.GIT", "README", "README/x"],
)
def test_a_destination_outside_is_refused(repo: Path, destination: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"--at {destination}: ")):
        bring(repo, source(TREE), destination=destination)
    assert clean(repo)


def test_a_destination_through_a_link_is_refused(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    commit_files(repo, {"out": Blob(os.fsencode(tmp_path / "elsewhere"), SYMLINK)})
    with pytest.raises(UserError, match="out is a symbolic link"):
        bring(repo, source(TREE), destination="out/torch")
    git(repo, "rm", "--quiet", "out")
    git(repo, "commit", "--quiet", "--message=gone")
    (repo / "out").symlink_to(tmp_path / "elsewhere")  # only in the working tree
    with pytest.raises(UserError, match="out is a symbolic link"):
        bring(repo, source(TREE), destination="out/torch")
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


@pytest.mark.parametrize("keep", ["", "/torch/**", "x\nSeries-Digest: forged"])
def test_a_glob_that_could_not_match_or_forge_a_label_is_refused(repo: Path, keep: str) -> None:
    with pytest.raises(UserError, match="not a glob of paths below the destination"):
        bring(repo, source(TREE), keep=(keep,))
