# SPDX-License-Identifier: Apache-2.0
"""Preempt a job of a real Slurm cluster, and kill one of its machines.

Run this test manually, as root, with Debian's slurm-wlm; see torch_google/launch/submit/README.md.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torch_google.launch.testing import slurm_cluster
from torch_google.resume.testing import train

_PROGRAM = Path(__file__).parent / "testing/train.par"
_SUBMITTER = Path(__file__).parents[1] / "launch/submit/submitter.par"
# Slurm does not start a job again whose script ends before the grace period does. So the script
# itself asks for that. README.md has the same lines.
_SCRIPT = """\
#!/bin/sh
PAR_MAIN=torch_google.launch srun --ntasks-per-node=1 {program} {directory} wait-at=5
status=$?
[ $status != 143 ] || scontrol requeue $SLURM_JOB_ID
exit $status
"""
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Return the losses of a single process that is never stopped."""
    directory = tmp_path_factory.mktemp("uninterrupted")
    train.losses(directory)
    return [row["loss"] for row in _rows(directory)]


@pytest.fixture
def cluster() -> Iterator[slurm_cluster.Cluster]:
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    with slurm_cluster.serve(nodes=4) as cluster:
        yield cluster


def _rows(directory: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (directory / "losses").read_text().splitlines()]


def _check(rows: list[dict[str, float]], uninterrupted: list[float]) -> None:
    """Check that no step is missing and each loss is correct, even if some steps were repeated."""
    assert {row["step"] for row in rows} == set(range(train.STEPS))
    for row in rows:
        assert row["loss"] == pytest.approx(uninterrupted[int(row["step"])], rel=1e-3)


def _wait_until(ready: Callable[[], bool], running: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 300
    while not ready():
        assert running(), f"the job ended before {what}"
        assert time.monotonic() < deadline, f"waited 300 s for {what}"
        time.sleep(0.2)


def test_a_job_goes_on_when_one_of_its_machines_is_lost(
    cluster: slurm_cluster.Cluster, tmp_path: Path, uninterrupted: list[float]
) -> None:
    options = ["--machines=4", "--min-machines=1", "--max-restarts=3", "--option=--immediate=60"]
    program = [str(tmp_path), "wait-at=6"]
    process = subprocess.Popen(
        [_SUBMITTER, f"--par={_PROGRAM}", "--scheduler=slurm", *options, "--", *program],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _wait_until(
        lambda: len(list(tmp_path.glob("waiting[0-3]"))) == 4,
        lambda: process.poll() is None,
        "the ranks of all machines",
    )
    cluster.lose("127.0.0.4")
    (tmp_path / "go").touch()
    output, _ = process.communicate(timeout=500)
    assert process.returncode == 0, output
    rows = _rows(tmp_path)
    assert (rows[0]["ranks"], rows[-1]["ranks"]) == (4, 3), output
    assert rows[-1]["step"] == train.STEPS - 1
    _check(rows, uninterrupted)
    assert output.endswith("submit: succeeded\n")


def test_a_job_that_another_job_preempts_is_started_again(
    cluster: slurm_cluster.Cluster, tmp_path: Path, uninterrupted: list[float]
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(_SCRIPT.format(program=_PROGRAM, directory=tmp_path))
    log = tmp_path / "log"
    options = ["--parsable", "--requeue", "--nodes=2", "--exclusive", f"--output={log}"]
    job = cluster.run("sbatch", *options, "--open-mode=append", str(script)).strip()
    _wait_until(
        lambda: len(list(tmp_path.glob("waiting[01]"))) == 2,
        lambda: (
            "RUNNING" in cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%T")
            or not log.exists()
        ),
        "both ranks",
    )
    # The other job needs all machines, so Slurm sends SIGTERM to the first one.
    urgent = ["--partition=urgent", "--nodes=4", "--exclusive", "--ntasks-per-node=1"]
    cluster.run("srun", *urgent, "true")
    stopped = [row["step"] for row in _rows(tmp_path)]
    assert stopped == list(range(7)), log.read_text()
    (tmp_path / "go").touch()
    description = cluster.wait_for_state(job, *_ENDED, seconds=400)
    assert "JobState=COMPLETED" in description, log.read_text()
    assert "Restarts=1" in description
    rows = _rows(tmp_path)
    assert [row["step"] for row in rows] == list(range(train.STEPS))  # each step ran exactly once
    assert {row["ranks"] for row in rows} == {2}
    _check(rows, uninterrupted)
