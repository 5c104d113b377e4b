# SPDX-License-Identifier: Apache-2.0
"""Run `continue` after `git mergetool`, with a shell command as the merge tool."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.importer.commands.sample_workspace import V1, SampleWorkspace, edited, make_workspace

A, B = V1["torch/a.py"], V1["torch/b.py"]
UPSTREAM = edited(B, row_20="row 20 of upstream", row_2="row 2 of upstream")
PATCHED = edited(B, row_20="row twenty", row_35="row thirty-five")
_QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


@pytest.fixture(name="sample")
def _sample(tmp_path: Path) -> SampleWorkspace:
    sample = make_workspace(tmp_path)
    sample.series("v1", {"second": {"torch/b.py": PATCHED}})
    sample.release("v2", {**V1, "torch/b.py": UPSTREAM})
    assert import_(sample) == 2
    return sample


def import_(sample: SampleWorkspace) -> int:
    return sample.run("--tag", "v2", "--origin", str(sample.upstream / "v2"), "--from", "v1")


def git(sample: SampleWorkspace, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=sample.root / ".import/conflict",
        env={**os.environ, **_QUIET},
        capture_output=True,
        check=True,
        text=True,
        input="",
    )
    return done.stdout


def mergetool(sample: SampleWorkspace, command: str, *more: str) -> None:
    settings = ("-c", f"mergetool.it.cmd={command}", "-c", "mergetool.it.trustExitCode=true")
    git(sample, *settings, *more, "mergetool", "--no-prompt", "--tool=it")


def test_the_index_has_three_versions_that_differ_only_in_the_conflict(
    sample: SampleWorkspace,
) -> None:
    merged = edited(UPSTREAM, row_35="row thirty-five")
    for stage, line in (("1", "row 20"), ("2", "row 20 of upstream"), ("3", "row twenty")):
        assert git(sample, "show", f":{stage}:torch/b.py") == merged.replace(
            "row 20 of upstream", line
        )
    assert git(sample, "status", "--short") == "UU torch/b.py\n"
    assert git(sample, "fsck", "--strict", "--no-dangling") == ""
    assert "mergetool" in (sample.root / ".import/CONFLICT.md").read_text()


def test_continue_takes_the_result(sample: SampleWorkspace) -> None:
    """The patch contains the merge tool's result but not its backup file."""
    mergetool(sample, 'sed "s/row twenty/row 20 of both/" "$REMOTE" > "$MERGED"')
    assert sample.conflict("torch/b.py.orig").exists()
    assert git(sample, "ls-files", "--unmerged") == ""
    assert sample.run("continue") == 0
    patch = (sample.root / "patches/torch/v2/second.patch").read_text()
    assert "-row 20 of upstream\n+row 20 of both\n" in patch
    assert "+row thirty-five" in patch
    assert patch.count("diff --git") == 1


def test_temporary_files_of_a_tool_that_failed_are_ignored(sample: SampleWorkspace) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        mergetool(sample, "false", "-c", "mergetool.keepTemporaries=true")
    assert len(list(sample.conflict("torch").glob("b_*.py"))) >= 3
    sample.conflict("torch/b.py").write_text(UPSTREAM.replace("row 20 of upstream", "by hand"))
    assert sample.run("continue") == 0


def test_continue_remembers_the_result(sample: SampleWorkspace) -> None:
    mergetool(sample, 'cp "$REMOTE" "$MERGED"')
    assert sample.run("continue") == 0
    assert len(list((sample.root / "patches/torch/settled").glob("*.json"))) == 1


def test_a_tool_that_gave_up_leaves_the_conflict(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        mergetool(sample, "false")
    assert sample.run("continue") == 2
    assert "'<<<<<<< upstream v2' is still there" in capsys.readouterr().out


def test_markers_stay_refused_in_a_file_that_was_added(sample: SampleWorkspace) -> None:
    git(sample, "add", "torch/b.py")
    assert sample.run("continue") == 2


def test_an_index_that_is_still_unmerged_does_not_matter(sample: SampleWorkspace) -> None:
    sample.conflict("torch/b.py").write_text(UPSTREAM.replace("row 20 of upstream", "by hand"))
    assert git(sample, "ls-files", "--unmerged") != ""
    assert sample.run("continue") == 0
    assert "+by hand" in (sample.root / "patches/torch/v2/second.patch").read_text()


def test_a_file_that_was_removed_there_is_deleted(sample: SampleWorkspace) -> None:
    git(sample, "rm", "--quiet", "--force", "torch/b.py")
    assert sample.run("continue") == 0
    assert "deleted file mode" in (sample.root / "patches/torch/v2/second.patch").read_text()
