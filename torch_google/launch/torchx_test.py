# SPDX-License-Identifier: Apache-2.0
"""Test the component with TorchX's own parser and schedulers, without starting a job.

TorchX 0.7 needs a version of urllib3 other than the locked one. So run this test in a separate
environment with torchx: python -m pytest torch_google/launch/torchx_test.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_google.launch import Place, place

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
