# SPDX-License-Identifier: Apache-2.0
"""Submit a real PAR to a real Slurm cluster with two nodes on this machine.

Run this test manually, as root, with Debian's slurm-wlm; see README.md.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torch_google.launch.testing import slurm_cluster, waiting

_PROGRAM = Path(__file__).parents[1] / "testing/sum.par"
_SUBMIT = (
    "from torch_google.launch.submit.main import main; import sys; sys.exit(main(sys.argv[1:]))"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm_cluster.Cluster]:
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    with slurm_cluster.serve(nodes=2) as cluster:
        yield cluster


def _submit(cluster: slurm_cluster.Cluster, *arguments: str) -> subprocess.Popen[str]:
    options = [f"--par={_PROGRAM}", "--scheduler=slurm", "--option=--immediate=60"]
    return subprocess.Popen(
        [sys.executable, "-c", _SUBMIT, *options, *arguments],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_logs_of_all_ranks_are_one_stream(cluster: slurm_cluster.Cluster) -> None:
    process = _submit(cluster, "--machines=2", "--processes=2", "--", "a b")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, output + errors
    rows = [re.fullmatch(r"\[(\d)\] ?(\{.*\})", line) for line in output.splitlines()]
    seen = {int(row[1]): json.loads(row[2]) for row in rows if row}
    assert sorted(seen) == [0, 1, 2, 3], output + errors
    for rank, row in seen.items():
        assert (row["rank"], row["sum"], row["arguments"]) == (rank, 10.0, ["a b"])
    assert errors.endswith("submit: succeeded\n")


def test_a_failure_of_one_rank_ends_the_job(cluster: slurm_cluster.Cluster) -> None:
    process = _submit(cluster, "--machines=2", "--", "fail-in-rank-1")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 1, output + errors
    assert "asked to fail" in output
    assert errors.endswith("submit: failed with status 1\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_job(
    cluster: slurm_cluster.Cluster, number: signal.Signals, tmp_path: Path
) -> None:
    wait = ["--", f"wait-with-pid-in={tmp_path}"]
    process = _submit(cluster, "--machines=2", *wait)
    pids = waiting.wait_for_pids(tmp_path, 2, process, seconds=300)
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number, output + errors
    assert errors.endswith("submit: cancelled\n")
    assert len(pids) == 2, output + errors
    assert not any(map(waiting.is_alive, pids)), output + errors
    assert cluster.run("squeue", "--noheader", "--states=PENDING,RUNNING") == ""


def test_a_job_in_a_batch_script(cluster: slurm_cluster.Cluster, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!/bin/sh\nPAR_MAIN=torch_google.launch srun --ntasks-per-node=1 {_PROGRAM}\n"
    )
    log = tmp_path / "log"
    job = cluster.run("sbatch", "--parsable", "--nodes=2", f"--output={log}", str(script)).strip()
    states = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
    assert "JobState=COMPLETED" in cluster.wait_for_state(job, *states, seconds=300)
    rows = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert sorted(row["rank"] for row in rows) == [0, 1]
    assert {row["sum"] for row in rows} == {3.0}
