# SPDX-License-Identifier: Apache-2.0
"""Measure builds, packages that add.py adds, and runs of the fine-tuning program."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.packages.workspace import CommandFailed, Workspace
from benchmarks.results import Figure

DEVICES = ("cpu", "tpu")
_TRAIN, _FINETUNE = "examples/train.par", "examples/finetune.par"
_ADD = "third_party/pypi/add.py"
_SPEED = re.compile(r"^trained .* on (\w+)(?::\d+)? in .* s, ([\d,]+) tokens/s$", re.MULTILINE)


def builds(workspace: Workspace, *, cold: bool) -> Iterator[Figure]:
    """Build train.par in a new clone, then finetune.par, whose wheels Bazel has not fetched yet.

    If `cold` is false, most actions of the first build come from a disk cache, so it has no row.
    """
    seconds = workspace.run("./bazelw", "build", _label(_TRAIN))
    if cold:
        yield _build("Set-up and first build of a program, nothing built yet", _TRAIN, seconds)
    seconds = workspace.run("./bazelw", "build", _label(_FINETUNE))
    yield _build("Build of a program whose packages were not fetched yet", _FINETUNE, seconds)
    for file in (_TRAIN, _FINETUNE):
        size = (workspace.root / "bazel-bin" / file).stat().st_size
        yield Figure(
            case="Size of the program", subject=_name(file), number=round(size / 1e6, 1), unit="MB"
        )


def additions(workspace: Workspace, packages: Sequence[str]) -> Iterator[Figure]:
    """Add each package to the workspace with add.py, and undo it."""
    # The workspace of a user has already built what all packed programs need.
    workspace.run("./bazelw", "test", "//third_party/pypi:import_test")
    for package in packages:
        try:
            seconds = workspace.run(sys.executable, _ADD, package)
        finally:
            workspace.restore()
        yield Figure(
            case="Adding a package, until a packed program imports it",
            subject=f"add.py {package}",
            runs=1,
            wall_seconds=round(seconds, 1),
        )


def trainings(workspace: Workspace, rounds: int) -> Iterator[Figure]:
    """Run the fine-tuning program on each device: once, and then `rounds` times."""
    programs = workspace.work / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    par = workspace.root / "bazel-bin" / _FINETUNE
    first = {device: tokens_per_second(par, device, programs) for device in DEVICES}
    later = [
        {device: tokens_per_second(par, device, programs) for device in DEVICES}
        for _ in range(rounds)
    ]
    for device in DEVICES:
        yield _speed("Training the adapter, first run", device, [first[device]])
    for device in DEVICES:
        yield _speed("Training the adapter, later runs", device, [run[device] for run in later])


def tokens_per_second(par: Path, device: str, programs: Path) -> float:
    """Return the throughput that the program prints. `programs` caches the device's programs.

    Raises CommandFailed if the program fails, or if it trained on another device.
    """
    environment = {**os.environ, "TORCH_TPU_COMPILE_CACHE": str(programs)}
    done = subprocess.run(
        [par, f"--device={device}", "--output="],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    match = _SPEED.search(done.stdout)
    if done.returncode or match is None or match[1] != device:
        lines = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise CommandFailed(f"finetune.par on {device}: status {done.returncode}\n{lines}")
    return float(match[2].replace(",", ""))


def _build(case: str, file: str, seconds: float) -> Figure:
    return Figure(case=case, subject=_name(file), runs=1, wall_seconds=round(seconds, 1))


def _speed(case: str, device: str, speeds: Sequence[float]) -> Figure:
    return Figure(
        case=case,
        subject=f"finetune.par on {device}",
        runs=len(speeds),
        number=round(statistics.median(speeds)),
        unit="tokens/s",
    )


def _label(file: str) -> str:
    directory, _, name = file.rpartition("/")
    return f"//{directory}:{name}"


def _name(file: str) -> str:
    return file.rpartition("/")[2]
