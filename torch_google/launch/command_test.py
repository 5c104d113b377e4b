# SPDX-License-Identifier: Apache-2.0
"""Start a real PAR with torch_google.launch, on one machine and as a job on two machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.par.testing.ports import reserved_port
from torch_google.launch import torchrun_arguments
from torch_google.launch.command import prepare_restarts
from torch_google.launch.testing import waiting

_PROGRAM = Path(__file__).parent / "testing/sum.par"
_ELASTIC = ["--nnodes=1:4", "--"]


def test_options_before_the_dashes_are_those_of_torchrun() -> None:
    env = {"JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "a", "PET_NNODES": "2"}
    arguments = torchrun_arguments(
        "x.par", ["--nproc-per-node=2", "--", "--epochs=1", "--", "y"], env
    )
    options = ["--nnodes=2", "--node-rank=1", "--master-addr=a", "--master-port=29500"]
    program = ["--no-python", "x.par", "--epochs=1", "--", "y"]
    assert arguments == [*options, "--nproc-per-node=2", *program]
    assert torchrun_arguments("x.par", ["--epochs=1"], {}) == [
        "--standalone", "--local-addr=127.0.0.1", "--no-python", "x.par", "--epochs=1"
    ]  # fmt: skip


@pytest.mark.parametrize("nodes", [["--nnodes=1:4"], ["--nnodes", "1:4"]])
def test_an_elastic_job_meets_at_the_first_machine(nodes: list[str]) -> None:
    env = {"JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "a", "PET_NNODES": "4"}
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=a:29500", "--rdzv-conf=is_host=false"]
    program = ["--no-python", "x.par"]
    assert torchrun_arguments("x.par", [*nodes, "--"], env) == [*rendezvous, *nodes, *program]
    env["JOB_COMPLETION_INDEX"] = "0"
    assert "--rdzv-conf=is_host=true" in torchrun_arguments("x.par", [*nodes, "--"], env)
    # Without a scheduler, the user must pass --rdzv-endpoint.
    alone = ["--rdzv-backend=c10d", *nodes, *program]
    assert torchrun_arguments("x.par", [*nodes, "--"], {}) == alone


def test_only_a_job_that_may_restart_gets_a_store_for_each_attempt() -> None:
    for arguments in (["--max-restarts=3", "--"], ["--max_restarts", "1", "--"], _ELASTIC):
        env: dict[str, str] = {}
        prepare_restarts(arguments, env)
        assert env == {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    for arguments in ([], ["--max-restarts=0", "--"], ["--", "--max-restarts=3"]):
        env = {}
        prepare_restarts(arguments, env)
        assert env == {}


def _environment(tmp_path: Path, **more: str) -> dict[str, str]:
    cache = os.environ.get("PAR_CACHE_DIR") or str(tmp_path / "cache")
    return {"PAR_CACHE_DIR": cache, "PATH": os.environ["PATH"], **more}


def _start(tmp_path: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    environment = _environment(tmp_path, PAR_MAIN="torch_google.launch", **env)
    return subprocess.Popen(
        [_PROGRAM, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _rows(output: str) -> list[dict[str, object]]:
    rows = [json.loads(line) for line in output.splitlines()]
    return sorted(rows, key=lambda row: str(row["rank"]))


def test_two_processes_on_one_machine(tmp_path: Path) -> None:
    process = _start(tmp_path, "--nproc-per-node=2", "--", "a")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert _rows(output) == [
        {"arguments": ["a"], "doors": ["PAR_CACHE_DIR"], "rank": rank, "sum": 3.0}
        for rank in (0, 1)
    ]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as number:
        yield number


@pytest.mark.full
def test_two_machines_of_an_indexed_job(tmp_path: Path, port: int) -> None:
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PET_NNODES": "2"}
    machines = [_start(tmp_path, JOB_COMPLETION_INDEX=str(index), **env) for index in (0, 1)]
    for index, process in enumerate(machines):
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        (row,) = _rows(output)
        assert (row["rank"], row["sum"]) == (index, 3.0)


@pytest.mark.full
@pytest.mark.parametrize("nodes", [[], ["--nnodes=1:2"]])
def test_restarted_processes_find_each_other(tmp_path: Path, port: int, nodes: list[str]) -> None:
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PET_NNODES": "2"}
    arguments = [*nodes, "--max-restarts=1", "--", f"fail-once-in={tmp_path}"]
    machines = [
        _start(tmp_path, *arguments, JOB_COMPLETION_INDEX=str(index), **env) for index in (0, 1)
    ]
    rows = []
    for process in machines:
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        rows += _rows(output)
    assert sorted(str(row["rank"]) for row in rows if row["sum"] == 3.0) == ["0", "1"]


@pytest.mark.full
def test_restarted_processes_of_one_machine_find_each_other(tmp_path: Path) -> None:
    options = ["--nproc-per-node=2", "--max-restarts=1"]
    process = _start(tmp_path, *options, "--", f"fail-once-in={tmp_path}")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert sorted(str(row["rank"]) for row in _rows(output)) == ["0", "1"]


@pytest.mark.full
def test_a_signal_ends_the_processes_and_is_the_status(tmp_path: Path) -> None:
    process = _start(tmp_path, "--", f"wait-with-pid-in={tmp_path}")
    pids = waiting.wait_for_pids(tmp_path, 1, process, seconds=240)
    process.terminate()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert errors.endswith("SIGTERM: all processes have ended\n")
    assert "Traceback" not in errors
    assert len(pids) == 1
    assert not waiting.is_alive(pids[0])


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}, "already has rank 0 of 1"),
        ({"JOB_COMPLETION_INDEX": "1"}, "found machine 1 of 1"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, env: dict[str, str], message: str) -> None:
    process = _start(tmp_path, **env)
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (1, "")
    assert message in errors
    assert errors.count("\n") == 1
