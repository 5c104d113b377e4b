# SPDX-License-Identifier: Apache-2.0
"""Elastic workers within one program restart, and the first failure is raised and logged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.par.testing.ports import reserved_port
from torch_google.multiprocessing import launch

_SCENARIOS = "torch_google.multiprocessing.testing.process_scenarios"

every_method = pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )


@pytest.mark.full
@every_method
def test_workers_fail_and_restart(method: str) -> None:
    # Under tmp_path, the path of the fork server's socket would be too long.
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        done = _run(
            *(_SCENARIOS, "elastic", "--text=hi", f"--multiprocessing_start_method={method}"),
            TMPDIR=scratch,
        )
        leftovers = [path.name for path in Path(scratch).glob("torch*elastic*")]
    assert done.returncode == 0, done.stderr
    assert "] results {0: 'hi hi 0 of 2', 1: 'hi hi 1 of 2'}\n" in done.stderr
    assert done.stderr.count("ValueError: not at the first attempt") == 1
    assert leftovers == []


@pytest.mark.full
def test_a_failure_that_stays_is_raised_and_each_is_logged() -> None:
    done = _run(_SCENARIOS, "elastic_fails", "--multiprocessing_start_method=fork")
    assert done.returncode == 1
    assert done.stderr.count("in fail_always\n") == 2, done.stderr  # once per attempt
    assert re.search(
        r"ProcessFailedError: process worker-1 \(pid \d+\) ended by exit status 1: "
        r"ValueError: never\n",
        done.stderr,
    )


def test_a_crash_has_its_traceback() -> None:
    done = _run(_SCENARIOS, "elastic_crashes", "--multiprocessing_start_method=fork")
    assert done.returncode == 1
    assert "in crash_in_c\n" in done.stderr
    assert "ended by SIGSEGV: Fatal Python error: Segmentation fault\n" in done.stderr


def test_main_by_flag() -> None:
    done = _run(_SCENARIOS, "rank", "--nproc_per_node=2", "--multiprocessing_start_method=fork")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]


def test_the_status_of_a_rank_is_that_of_its_main() -> None:
    done = _run(
        *(_SCENARIOS, "rank", "--nproc_per_node=1", "--status=5"),
        "--multiprocessing_start_method=fork",
    )
    assert done.returncode == 1
    assert "ended by exit status 5" in done.stderr


@pytest.mark.full
def test_the_same_file_under_torchrun() -> None:
    done = _run(
        *("torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("-m", _SCENARIOS, "rank", "--nproc_per_node=7"),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as number:
        yield number


@pytest.mark.full
def test_two_machines_meet_without_a_name(port: int) -> None:
    agents = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", _SCENARIOS, "rank", "--nproc_per_node=1", "--nnodes=2"),
                *(f"--rdzv_endpoint=localhost:{port}", "--multiprocessing_start_method=fork"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        outputs = [agent.communicate(timeout=300)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    assert [agent.returncode for agent in agents] == [0, 0]
    assert sorted(outputs) == ["rank 0 of 2\n", "rank 1 of 2\n"]


@pytest.mark.parametrize("nnodes", ["2", "1:2"])
def test_machines_that_cannot_meet_are_refused(nnodes: str) -> None:
    with pytest.raises(ValueError, match="give rdzv_endpoint as HOST:PORT, the same on all"):
        launch(print, nproc_per_node=1, nnodes=nnodes, run_id="named")


def test_machines_are_checked() -> None:
    with pytest.raises(ValueError, match="nnodes is 'two'; write a number of machines"):
        launch(print, nproc_per_node=1, nnodes="two")
