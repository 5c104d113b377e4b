# SPDX-License-Identifier: Apache-2.0
"""After a parent is killed with SIGKILL, no child survives, however it was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_SCENARIOS = [sys.executable, "-m", "torch_google.multiprocessing.testing.process_scenarios"]
_METHODS = ["spawn", "forkserver", "fork"]


def _killed(tmp_path: Path, *arguments: str, expect: int) -> None:
    """Kill a scenario's first process once `expect` processes sleep; wait until all have exited."""
    output = tmp_path / "pids"
    with output.open("wb") as file:
        first = subprocess.Popen(
            [*_SCENARIOS, *arguments],
            stdout=file,
            env={**os.environ, "SCENARIOS_TEST": str(tmp_path)},
        )
    try:
        _until(lambda: len(output.read_bytes().splitlines()) == expect, first)
        running = _processes_of(str(tmp_path))
        assert {int(line) for line in output.read_text().split()} < running
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    _until(lambda: not _processes_of(str(tmp_path)), None)


def _until(condition, first: subprocess.Popen[bytes] | None) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 300
    while not condition():
        assert first is None or first.poll() is None, "the program ended early"
        assert time.monotonic() < end, "the condition is still false after five minutes"
        time.sleep(0.05)


def _processes_of(name: str) -> set[int]:
    """Return the scenario's processes, including fork servers and resource trackers."""
    variable = f"SCENARIOS_TEST={name}".encode()
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if variable in (entry / "environ").read_bytes().split(b"\0"):
                    pids.add(int(entry.name))
            except OSError:  # the process has exited, or belongs to another user
                continue
    return pids


@pytest.mark.parametrize("method", _METHODS)
def test_a_child_and_its_child(tmp_path: Path, method: str) -> None:
    _killed(tmp_path, "kill_me", f"--method={method}", expect=2)


@pytest.mark.parametrize("method", _METHODS)
def test_a_child_that_a_thread_started(tmp_path: Path, method: str) -> None:
    _killed(tmp_path, "kill_me_plain", f"--method={method}", expect=2)


@pytest.mark.parametrize("method", _METHODS)
def test_loader_workers(tmp_path: Path, method: str) -> None:
    _killed(tmp_path, "kill_my_loader", f"--method={method}", expect=2)


@pytest.mark.full
@pytest.mark.parametrize("method", _METHODS)
def test_elastic_workers(tmp_path: Path, method: str) -> None:
    _killed(tmp_path, "kill_my_workers", f"--multiprocessing_start_method={method}", expect=2)


def test_workers_of_torchrun(tmp_path: Path) -> None:
    output = tmp_path / "pids"
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("-m", "torch_google.multiprocessing.testing.process_scenarios", "hold_under_torchrun"),
    ]
    with output.open("wb") as file:
        agent = subprocess.Popen(
            command, stdout=file, env={**os.environ, "SCENARIOS_TEST": str(tmp_path)}
        )
    try:
        _until(lambda: len(output.read_bytes().splitlines()) == 2, agent)
    finally:
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    _until(lambda: not _processes_of(str(tmp_path)), None)


def test_an_end_that_is_none_of_a_parents_leaves_children_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [*_SCENARIOS, "siblings", "--text=alive"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("alive") == 1, done.stderr
