# SPDX-License-Identifier: Apache-2.0
"""Derive torchrun's arguments from the environment variables of each scheduler.

Slurm's variables were recorded with version 22.05, on the second of two nodes; only the job ID is
made up. The other schedulers' variables are taken from their manuals.
"""

from __future__ import annotations

import pytest

from torch_google.launch import Place, PlaceError, place
from torch_google.launch.environments import ENVIRONMENTS, find

_SLURM = {
    "SLURM_CPUS_ON_NODE": "1",
    "SLURM_GTIDS": "1",
    "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
    "SLURM_JOB_ID": "1234",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NNODES": "2",
    "SLURM_NODEID": "1",
    "SLURM_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_PROCID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_TASKS_PER_NODE": "1(x2)",
    "SLURM_TOPOLOGY_ADDR": "n2",
}
_BATCH = {name: value for name, value in _SLURM.items() if "STEP" not in name}
_GKE = {
    "JOB_COMPLETION_INDEX": "3",
    "TPU_ACCELERATOR_TYPE": "v5p-32",
    "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1",
    "TPU_TOPOLOGY": "2x2x4",
    "TPU_WORKER_HOSTNAMES": "train-0.train,train-1.train,train-2.train,train-3.train",
    "TPU_WORKER_ID": "3",
}
_SLICES = _GKE | {
    "MEGASCALE_COORDINATOR_ADDRESS": "train-workers-0-0.train:8080",
    "MEGASCALE_NUM_SLICES": "2",
    "MEGASCALE_SLICE_ID": "1",
}
_INDEXED = {"JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "train-0.train", "PET_NNODES": "2"}
_JOBSET = {
    "JOBSET_JOBS": "2",
    "JOBSET_JOB_INDEX": "1",
    "JOBSET_PODS_PER_JOB": "4",
    "JOB_COMPLETION_INDEX": "2",
    "MASTER_ADDR": "train-workers-0-0.train",
}
_TORCHX = {
    "TORCHX_NODE": "1",
    "TORCHX_NODES": "2",
    "TORCHX_RANK0_ENV": "SLURM_JOB_NODELIST_HET_GROUP_0",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "n1",
}
_OPERATOR = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "RANK": "1", "WORLD_SIZE": "3"}
_RAY = {"RAY_ADDRESS": "10.0.0.1:6379", "RAY_JOB_CONFIG_JSON_ENV_VAR": '{"metadata": {}}'}


@pytest.mark.parametrize(
    ("name", "env", "expected"),
    [
        ("Slurm", _SLURM, Place(2, 1, "n1", 21234)),
        ("Slurm", _SLURM | {"SLURM_GPUS_ON_NODE": "4"}, Place(2, 1, "n1", 21234, 4)),
        ("Slurm", _SLURM | {"MASTER_PORT": "5"}, Place(2, 1, "n1", 5)),
        ("Slurm", {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"}, Place(1)),
        ("TPUs on GKE", _GKE, Place(4, 3, "train-0.train")),
        ("TPUs on GKE", _SLICES, Place(8, 7, "train-workers-0-0.train")),
        ("Kubernetes Indexed Job", _INDEXED, Place(2, 1, "train-0.train")),
        ("Kubernetes Indexed Job", {"JOB_COMPLETION_INDEX": "0"}, Place(1)),
        ("JobSet", _JOBSET, Place(8, 6, "train-workers-0-0.train")),
        ("JobSet", _SLICES | _JOBSET, Place(8, 6, "train-workers-0-0.train")),
        ("TorchX", _TORCHX, Place(2, 1, "n1")),
        ("TorchX", _TORCHX | _SLURM, Place(2, 1, "n1")),
        ("Ray", _RAY, Place(1)),
        ("PyTorchJob", _OPERATOR, Place(3, 1, "job-master-0", 23456)),
        ("torchrun", {"PET_NNODES": "2", "PET_NODE_RANK": "1", "MASTER_ADDR": "a"}, None),
    ],
)
def test_the_place(name: str, env: dict[str, str], expected: Place | None) -> None:
    environment = find(env)
    assert environment is not None
    assert environment.name == name
    assert place(env) == expected


def test_a_direct_start_is_one_machine() -> None:
    assert find({"PATH": "/bin"}) is None
    assert place({}) == Place(1)


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Place(1), ["--standalone", "--local-addr=127.0.0.1"]),
        (Place(1, processes=2), ["--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]),
        (
            Place(2, 1, "n1", 5, 4),
            [
                "--nnodes=2",
                "--node-rank=1",
                "--master-addr=n1",
                "--master-port=5",
                "--nproc-per-node=4",
            ],
        ),
    ],
)
def test_the_arguments(machine: Place, expected: list[str]) -> None:
    assert machine.torchrun_arguments() == expected


def test_a_job_that_may_restart_has_its_rendezvous_on_the_first_machine() -> None:
    rendezvous = ["--rdzv-backend=c10d", "--rdzv-endpoint=n1:5", "--rdzv-conf=is_host=false"]
    arguments = Place(2, 1, "n1", 5, 4).torchrun_arguments(restarts=True)
    assert arguments == [*rendezvous, "--nnodes=2", "--nproc-per-node=4"]
    alone = ["--standalone", "--local-addr=127.0.0.1"]
    assert Place(1).torchrun_arguments(restarts=True) == alone


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"LOCAL_RANK": "0", "RANK": "1", "WORLD_SIZE": "2"}, "already has rank 1 of 2"),
        (_BATCH, "Slurm: the job has 2 machines.*start it with srun"),
        (_SLURM | {"SLURM_STEP_NUM_TASKS": "8"}, "8 tasks on 2 machines.*--ntasks-per-node=1"),
        (_SLURM | {"SLURM_STEP_NODELIST": "n[1-"}, r"Slurm: found the host list 'n\[1-'"),
        (_SLURM | {"SLURM_NODEID": "2"}, "Slurm: found machine 2 of 2.*SLURM_NODEID=2"),
        (_SLURM | {"SLURM_NODEID": "x"}, "SLURM_NODEID=x: expected a number"),
        (_SLICES | {"MEGASCALE_COORDINATOR_ADDRESS": ""}, "MEGASCALE_COORDINATOR_ADDRESS is not"),
        (_INDEXED | {"PET_NNODES": ""}, "Kubernetes Indexed Job: PET_NNODES is not set"),
        (
            {"JOB_COMPLETION_INDEX": "1", "PATH": "/bin"},
            "found machine 1 of 1; .*: no MASTER_ADDR, no PET_NNODES, JOB_COMPLETION_INDEX=1, ",
        ),
        (_JOBSET | {"MASTER_ADDR": ""}, "JobSet: MASTER_ADDR is not set"),
        (_TORCHX | {"SLURM_JOB_NODELIST_HET_GROUP_0": ""}, "TORCHX_RANK0_ENV names SLURM"),
        (_RAY | {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{"}, "not JSON"),
        (
            {"TPU_WORKER_HOSTNAMES": ",".join(["host"] * 99), "TPU_WORKER_ID": "99"},
            r"found machine 99 of 99; .*TPU_WORKER_HOSTNAMES=(host,){11}ho\.\.\., ",
        ),
    ],
)
def test_mistakes_are_one_line(env: dict[str, str], message: str) -> None:
    with pytest.raises(PlaceError, match=message) as caught:
        place(env)
    assert "\n" not in str(caught.value)


def test_each_environment_has_a_name_and_variables() -> None:
    assert len({environment.name for environment in ENVIRONMENTS}) == len(ENVIRONMENTS)
    assert all(environment.variables for environment in ENVIRONMENTS)
