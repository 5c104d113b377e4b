# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess

import pytest

from tools.presubmit.checks import commit_subjects, sample_tree


@pytest.mark.parametrize(
    "subject",
    [
        "tpu: support DataParallel on torch v2.6",
        "README: update fused warm-start figures",
        "tools/par: pass the address of a door",
        ".bazelrc: embed no path",
        "ci: focus",
        "flags, tpu/eager: rewrite comments",
        'Revert "tpu: support DataParallel"',
    ],
)
def test_accepts(subject: str) -> None:
    assert commit_subjects.fault(subject) == ""


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("tpu: " + "x" * 68, "73 characters; the limit is 72"),
        ("fix things", "expected `area: imperative verb"),
        ("tpu: Add a test", "expected `area: imperative verb"),
        ("tpu: ", "expected `area: imperative verb"),
        ("Merge: a branch", "expected `area: imperative verb"),
        ("tpu: adds a test", "'adds' is not the imperative"),
        ("tpu: added a test", "'added' is not the imperative"),
        ("tpu: adding a test", "'adding' is not the imperative"),
    ],
)
def test_rejects(subject: str, message: str) -> None:
    assert message in commit_subjects.fault(subject)


def _commit(root: pathlib.Path, subject: str, date: str) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "a"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@b"),
        "GIT_AUTHOR_DATE": date,
    }
    command = ["git", "commit", "-q", "--allow-empty", "--no-verify", "-m", subject]
    subprocess.run(command, cwd=root, env=environment, check=True)


def test_judges_new_commits_only(tmp_path: pathlib.Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    _commit(tmp_path, "an old subject", "2026-11-01T00:00:00Z")
    _commit(tmp_path, "a new subject", "2026-12-01T00:00:00Z")
    (problem,) = commit_subjects.find(sample_tree.write(tmp_path, {"a.txt": "a"}))
    assert problem.what.startswith("subject 'a new subject'")


def test_a_tree_without_a_history_has_no_finding(tmp_path: pathlib.Path) -> None:
    assert [*commit_subjects.find(sample_tree.write(tmp_path, {"a.txt": "a"}))] == []
