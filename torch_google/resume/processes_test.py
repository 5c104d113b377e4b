# SPDX-License-Identifier: Apache-2.0
"""Preempt and kill torchrun's processes. The losses must equal those of an uninterrupted run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.par.testing.ports import reserved_port
from torch_google.resume.testing import train

_TORCHRUN = ["-m", "torch.distributed.run"]
_PROGRAM = ["-m", "torch_google.resume.testing.train"]
# With these rendezvous settings, a job that loses a machine continues within seconds, not minutes.
_QUICK = "join_timeout=120,last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=3"
_SIGTERM_STATUS = 143


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=_environment(),
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, sys.path))
    return dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=path)


def _torchrun(*arguments: str) -> subprocess.Popen[bytes]:
    return _start(*_TORCHRUN, *arguments)


def _wait_for(path: Path, *processes: subprocess.Popen[bytes]) -> int:
    """Wait for a file that a rank writes, and return the process id in it."""
    deadline = time.monotonic() + 240
    while not path.exists():
        assert all(process.poll() is None for process in processes), f"ended without {path.name}"
        assert time.monotonic() < deadline, f"no {path.name}"
        time.sleep(0.05)
    return int(path.read_text())


def _rows(directory: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (directory / "losses").read_text().splitlines()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Return the losses of a single process that is never stopped."""
    directory = tmp_path_factory.mktemp("uninterrupted")
    train.losses(directory)
    return [row["loss"] for row in _rows(directory)]


def _check(rows: list[dict[str, float]], uninterrupted: list[float]) -> None:
    """Check that no step is missing and each loss is correct, even if some steps were repeated."""
    assert {row["step"] for row in rows} == set(range(train.STEPS))
    for row in rows:
        assert row["loss"] == pytest.approx(uninterrupted[int(row["step"])], rel=1e-3)


@pytest.mark.full
def test_sigterm_saves_and_the_next_start_goes_on(
    tmp_path: Path, uninterrupted: list[float]
) -> None:
    command = ["--standalone", "--nproc_per_node=2", *_PROGRAM, str(tmp_path)]
    process = _torchrun(*command, "wait-at=5")
    pid = _wait_for(tmp_path / "waiting0", process)
    os.kill(pid, signal.SIGTERM)  # only one rank gets the signal
    (tmp_path / "go").touch()
    assert process.wait(240) == 1  # torchrun exits with 1 if a rank failed
    stopped = [row["step"] for row in _rows(tmp_path)]
    # After the signal in step 5, the ranks agree to stop while step 6 runs.
    assert stopped == list(range(7))
    assert _torchrun(*command).wait(240) == 0
    rows = _rows(tmp_path)
    assert [row["step"] for row in rows] == list(range(train.STEPS))  # each step ran exactly once
    _check(rows, uninterrupted)


@pytest.mark.full
def test_a_kill_during_a_save_leaves_the_old_checkpoint(
    tmp_path: Path, uninterrupted: list[float]
) -> None:
    process = _start(*_PROGRAM, str(tmp_path), "hang-in-save=2")
    _wait_for(tmp_path / "saving", process)
    process.kill()
    process.wait()
    assert len(list((tmp_path / "checkpoint").glob("*.distcp"))) == 2
    assert [row["step"] for row in _rows(tmp_path)] == list(range(8))
    assert _start(*_PROGRAM, str(tmp_path)).wait(240) == 0
    rows = _rows(tmp_path)
    assert [row["step"] for row in rows[8:]] == list(range(4, train.STEPS))
    _check(rows, uninterrupted)


@pytest.mark.full
def test_sigterm_to_torchrun_reaches_the_rank(tmp_path: Path, uninterrupted: list[float]) -> None:
    process = _torchrun("--standalone", *_PROGRAM, str(tmp_path), "wait-at=2")
    _wait_for(tmp_path / "waiting0", process)
    process.terminate()
    process.wait(240)
    assert len(_rows(tmp_path)) < train.STEPS
    assert _start(*_PROGRAM, str(tmp_path)).wait(240) == 0
    rows = _rows(tmp_path)
    assert [row["step"] for row in rows] == list(range(train.STEPS))
    _check(rows, uninterrupted)


@pytest.mark.full
def test_a_directory_that_one_rank_does_not_see_is_an_error(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()
    train.losses(tmp_path / "1")
    process = subprocess.run(
        [
            sys.executable,
            *_TORCHRUN,
            "--standalone",
            "--nproc_per_node=2",
            *_PROGRAM,
            f"{tmp_path}/RANK",
        ],
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=240,
    )
    assert process.returncode == 1
    assert "0/checkpoint: only some ranks see a checkpoint; use a directory" in process.stderr
    assert "1/checkpoint: only some ranks see a checkpoint; use a directory" in process.stderr


def test_one_process_ends_with_the_status_of_sigterm(
    tmp_path: Path, uninterrupted: list[float]
) -> None:
    process = _start(*_PROGRAM, str(tmp_path), "wait-at=1")
    os.kill(_wait_for(tmp_path / "waiting0", process), signal.SIGTERM)
    assert process.wait(240) == _SIGTERM_STATUS
    assert [row["step"] for row in _rows(tmp_path)] == [0, 1]
    assert _start(*_PROGRAM, str(tmp_path)).wait(240) == 0
    _check(_rows(tmp_path), uninterrupted)


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as number:
        yield number


@pytest.mark.full
def test_the_job_goes_on_when_a_machine_is_lost(
    tmp_path: Path, uninterrupted: list[float], port: int
) -> None:
    endpoint = f"127.0.0.1:{port}"
    machines = []
    for number in range(2):
        conf = f"is_host={'true' if number == 0 else 'false'},{_QUICK}"
        options = ["--nnodes=1:2", "--nproc_per_node=1", "--max_restarts=3"]
        rendezvous = ["--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}", f"--rdzv_conf={conf}"]
        program = [*_PROGRAM, str(tmp_path), "wait-at=6"]
        machines.append(_torchrun(*options, *rendezvous, *program))
    pids = [_wait_for(tmp_path / f"waiting{rank}", *machines) for rank in (0, 1)]
    lost = machines[1]
    # Simulate the loss of the machine that does not host the rendezvous: kill both torchrun and its
    # rank, so that neither can send a message.
    (rank,) = (pid for pid in pids if _parent(pid) == lost.pid)
    lost.kill()
    os.kill(rank, signal.SIGKILL)
    assert lost.wait() == -signal.SIGKILL
    (tmp_path / "go").touch()
    assert machines[0].wait(400) == 0
    rows = _rows(tmp_path)
    assert (rows[0]["ranks"], rows[-1]["ranks"]) == (2, 1)
    _check(rows, uninterrupted)


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])
