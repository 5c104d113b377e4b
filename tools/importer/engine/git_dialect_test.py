# SPDX-License-Identifier: Apache-2.0
"""git and the importer read and apply each other's patches."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tools.importer.apply import apply_diff
from tools.importer.engine.made_trees import Files, two_trees
from tools.importer.engine.real_git import RealGit, RefusedByGit
from tools.importer.engine.render import Change, render_patch
from tools.importer.snapshot import Blob
from tools.importer.unified import parse_diff
from tools.par.testing.budget import examples

# Run few examples, because each one runs git five times.
_FEW = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(name="git", scope="module")
def _git(tmp_path_factory: pytest.TempPathFactory) -> RealGit:
    return RealGit(tmp_path_factory.mktemp("git"))


def _applied(before: Files, patch: bytes) -> Files:
    work: dict[str, Blob | None] = dict(before)
    for diff in parse_diff(patch):
        work.update(apply_diff("a.patch", diff, {path: work.get(path) for path in diff.paths}))
    return {path: blob for path, blob in work.items() if blob is not None}


@_FEW
@given(trees=two_trees(), option=st.sampled_from(["-M", "--no-renames"]), context=st.integers(0, 5))
def test_what_git_writes_applies_here(
    git: RealGit, trees: tuple[Files, Files], option: str, context: int
) -> None:
    before, after = trees
    patch = git.diff(git.commit("x", before), git.commit("x", after), option, f"-U{context}")
    assert _applied(before, patch) == after


@_FEW
@given(trees=two_trees(), option=st.sampled_from(["-M", "--no-renames"]), context=st.integers(1, 5))
def test_what_we_write_applies_in_git_and_here(
    git: RealGit, trees: tuple[Files, Files], option: str, context: int
) -> None:
    before, after = trees
    assume(before != after)
    old, new = git.commit("y", before), git.commit("y", after)
    theirs = git.diff(old, new, option)
    patch = _rendered(theirs, before, after, context)
    try:
        tree = git.applied(old, patch)
    except RefusedByGit:
        # git also rejects its own patch if a directory name ends in a space, or if a symlink is
        # moved and a directory takes its place.
        with pytest.raises(RefusedByGit):
            git.applied(old, theirs)
    else:
        assert tree == git("rev-parse", f"{new}^{{tree}}").decode().strip()
    assert _applied(before, patch) == after
    assert _rendered(patch, before, _applied(before, patch), context) == patch


def _rendered(diff: bytes, before: Files, after: Files, context: int) -> bytes:
    """Return the importer's own patch for the files that `diff` changes."""
    changes = [
        Change(
            file.old_path or file.path,
            file.new_path or file.path,
            before[file.old_path] if file.old_path else None,
            after[file.new_path] if file.new_path else None,
        )
        for file in parse_diff(diff)
    ]
    return render_patch(b"Subject: Any", changes, context=context)
