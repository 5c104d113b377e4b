# SPDX-License-Identifier: Apache-2.0
"""Test the whole benchmark with a fake Bazel, a fake add.py and a fake program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.packages import __main__ as program
from benchmarks.packages.measure import tokens_per_second
from benchmarks.packages.workspace import CommandFailed, Workspace

_BAZELW = """#!/bin/sh
echo "bazelw $*" >>../calls
[ "$1" = build ] || exit 0
mkdir -p bazel-bin/examples
cp ${2#//examples:} bazel-bin/examples/
"""
_ADD = """
import sys
with open("../calls", "a") as file:
    print("add.py", *sys.argv[1:], open("lock").read(), file=file)
open("lock", "w").write("changed")
open("new", "w").write("")
sys.exit(sys.argv[1] == "broken" and "add.py: no such package")
"""
_PROGRAM = """#!/bin/sh
echo "trained 5 of 1,000 parameters on ${1#--device=} in 2.0 s, 1,234 tokens/s"
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    files = {
        "bazelw": _BAZELW,
        "finetune.par": _PROGRAM,
        "train.par": "program " * 10**6,
        "lock": "locked",
        "third_party/pypi/add.py": _ADD,
        ".gitignore": "/bazel-*\n/.bazelrc.user\n",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    for name in ("bazelw", "finetune.par"):
        (root / name).chmod(0o755)
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "all"]):
        names = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *names, *command], cwd=root, check=True)
    return root


def test_every_row_is_measured_and_the_clone_is_deleted(source: Path, tmp_path: Path) -> None:
    (source / ".bazelrc.user").write_text("build --jobs=1\n")
    work = tmp_path / "work"
    arguments = [f"--source={source}", f"--work={work}", "--rounds=2", "--packages", "a", "b"]
    assert program.main(arguments) == 0
    assert (work / "calls").read_text().splitlines() == [
        "bazelw build //examples:train.par",
        "bazelw build //examples:finetune.par",
        "bazelw test //third_party/pypi:import_test",
        "add.py a locked",
        "add.py b locked",
        "bazelw shutdown",
    ]
    figures = {(row.case, row.subject): row for row in results.read(work / "packages.json").figures}
    speed = figures["Training the adapter, later runs", "finetune.par on tpu"]
    assert (speed.number, speed.unit, speed.runs) == (1234, "tokens/s", 2)
    assert figures["Size of the program", "train.par"].number == 8.0
    added = figures["Adding a package, until a packed program imports it", "add.py b"]
    assert added.wall_seconds is not None
    assert len(figures) == 10
    assert not (work / "clone").exists()


@pytest.mark.parametrize(
    "names", [("GIT_WORK_TREE",), ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")]
)
def test_a_hook_of_another_repository_leads_no_command_there(
    names: tuple[str, ...], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "lock").write_text("kept")
    (other / "untracked").write_text("kept")
    subprocess.run(["git", "init", "--quiet"], cwd=other, check=True)
    places = {
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / ".git/index",
    }
    with monkeypatch.context() as hook:
        for name in names:
            hook.setenv(name, str(places[name]))
        workspace = Workspace(source, tmp_path / "work")
        (workspace.root / "lock").write_text("changed")
        (workspace.root / "new").write_text("")
        workspace.restore()
    assert (workspace.root / "lock").read_text() == "locked"
    assert not (workspace.root / "new").exists()
    assert (other / "lock").read_text() == "kept"
    assert (other / "untracked").read_text() == "kept"


def test_a_first_build_from_a_cache_is_no_figure(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    arguments = [f"--source={source}", f"--work={work}", f"--disk_cache={tmp_path}", "--packages"]
    assert program.main(arguments) == 0
    cases = [figure.case for figure in results.read(work / "packages.json").figures]
    assert cases[0] == "Build of a program whose packages were not fetched yet"
    assert len(cases) == 7
    assert tmp_path.is_dir()


def test_a_failed_command_ends_the_run_and_its_output_is_shown(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    arguments = [f"--source={source}", f"--work={work}", "--packages", "broken"]
    assert program.main(arguments) == 1
    assert "ended with status 1:\nadd.py: no such package" in capsys.readouterr().err
    assert (work / "calls").read_text().splitlines()[-1] == "bazelw shutdown"
    assert not (work / "packages.json").exists()


@pytest.mark.parametrize("end", ["exit 3", "echo 'trained 5 of 9 on cpu in 2.0 s, 9 tokens/s'"])
def test_a_program_that_fails_or_trains_elsewhere_is_an_error(end: str, tmp_path: Path) -> None:
    par = tmp_path / "finetune.par"
    par.write_text(f"#!/bin/sh\necho the reason >&2\n{end}\n")
    par.chmod(0o755)
    with pytest.raises(CommandFailed, match="the reason"):
        tokens_per_second(par, "tpu", tmp_path)
