# SPDX-License-Identifier: Apache-2.0
"""Test the component with TorchX's own parser and schedulers, and in a job on a Slurm cluster.

TorchX 0.7 needs a version of urllib3 other than the locked one. So run this test in a separate
environment with torchx: python -m pytest torch_google/launch/torchx_test.py

The job on Slurm needs root, Debian's slurm-wlm, and the path of a built PAR in SUM_PAR.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from torch_google.launch import Place, place
from torch_google.launch.testing import slurm_cluster

pytest.importorskip("torchx", reason="torchx is not installed; it conflicts with the lock")

_COMPONENT = f"{Path(__file__).parent}/torchx.py:par"
_ARGUMENTS = ["--par=/shared/train.par", "--nodes=2", "--processes=4", "--", "--epochs=1"]


def _requests(scheduler: str, **options: object) -> object:
    from torchx import runner

    with runner.get_runner(component_defaults={}) as jobs:
        return jobs.dryrun_component(_COMPONENT, _ARGUMENTS, scheduler, options).request


def test_slurm_starts_the_par_on_each_machine() -> None:
    request = _requests("slurm")
    script = request.materialize()  # type: ignore[attr-defined]
    assert "srun" in script
    assert "PAR_MAIN=torch_google.launch" in script
    assert "/shared/train.par --nproc-per-node=4 -- --epochs=1" in script


def test_launch_reads_the_variables_of_each_machine(tmp_path: Path) -> None:
    request = _requests("local_cwd", log_dir=str(tmp_path))
    (replicas,) = request.role_params.values()  # type: ignore[attr-defined]
    places = [place(replica.env) for replica in replicas]
    assert places == [Place(2, rank, "localhost") for rank in (0, 1)]
    assert replicas[0].args[1:] == ["--nproc-per-node=4", "--", "--epochs=1"]


def test_a_job_on_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchx import runner

    program = os.environ.get("SUM_PAR", "")
    if not program:
        pytest.skip("SUM_PAR is not set: build //torch_google/launch/testing:sum.par")
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    program = os.path.abspath(program)
    (tmp_path / "job").mkdir()
    with slurm_cluster.serve(nodes=2) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        with runner.get_runner(component_defaults={}) as jobs:
            handle = jobs.run_component(
                _COMPONENT,
                [f"--par={program}", "--nodes=2", "--processes=2", "--", "a b"],
                "slurm",
                {"job_dir": str(tmp_path / "job"), "nomem": True},
            )
        job = handle.rpartition("/")[2]
        states = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        description = cluster.wait_for_state(job, *states, seconds=300)
    logs = [path.read_text() for path in (tmp_path / "job").glob("slurm-*.out")]
    assert "JobState=COMPLETED" in description, logs
    rows = [json.loads(line) for log in logs for line in log.splitlines() if line[:1] == "{"]
    assert sorted(row["rank"] for row in rows) == [0, 1, 2, 3]
    assert {row["sum"] for row in rows} == {10.0}
    assert all(row["arguments"] == ["a b"] for row in rows)
