# SPDX-License-Identifier: Apache-2.0
"""Determine this machine's place in a job from the scheduler's environment variables.

The place consists of the number of machines, this machine's rank and the rendezvous address.
ENVIRONMENTS lists the schedulers. The first one whose variables are all set is used.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping

from torch_google.launch.hostlist import hosts

_PORT = 29500  # torchrun's default port
Variables = Mapping[str, str]


class PlaceError(ValueError):
    """Raised if the scheduler's variables are invalid. The message says why."""


@dataclasses.dataclass(frozen=True)
class Place:
    """This machine's place in a job on `nodes` machines.

    host, port: the rendezvous address, on the first machine.
    processes: the number of processes on this machine, or None if the scheduler does not set it.
    """

    nodes: int
    node_rank: int = 0
    host: str = "localhost"
    port: int = _PORT
    processes: int | None = None

    def torchrun_arguments(self, *, elastic: bool = False, restarts: bool = False) -> list[str]:
        """Return torchrun's options for this machine.

        elastic: whether the number of machines may change while the job runs. Then the options
        omit the number of machines and this machine's rank, and the first machine hosts the
        rendezvous.
        restarts: whether torchrun may restart the processes. Then the first machine also hosts the
        rendezvous, because torchrun's other rendezvous works only once.
        """
        processes = [] if self.processes is None else [f"--nproc-per-node={self.processes}"]
        if elastic:
            return [*self._rendezvous(), *processes]
        if restarts and self.nodes > 1:
            return [*self._rendezvous(), f"--nnodes={self.nodes}", *processes]
        if self.nodes == 1:
            # Do not use this machine's host name, because a container may be unable to resolve it.
            return ["--standalone", "--local-addr=127.0.0.1", *processes]
        return [
            f"--nnodes={self.nodes}",
            f"--node-rank={self.node_rank}",
            f"--master-addr={self.host}",
            f"--master-port={self.port}",
            *processes,
        ]

    def _rendezvous(self) -> list[str]:
        if self.nodes == 1:
            # The scheduler does not provide any machine's address, so the user must pass
            # --rdzv-endpoint.
            return ["--rdzv-backend=c10d"]
        return [
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={self.host}:{self.port}",
            f"--rdzv-conf=is_host={str(self.node_rank == 0).lower()}",
        ]


@dataclasses.dataclass(frozen=True)
class Environment:
    """A scheduler, with the variables that identify it and a function that reads them."""

    name: str
    variables: tuple[str, ...]
    read: Callable[[Variables], Place | None]


class _Used(Mapping[str, str]):
    """Variables that record which of them are read. `str` returns those, with their values.

    Values longer than 60 characters are cut off.
    """

    def __init__(self, env: Variables) -> None:
        self._env = env
        self._names: dict[str, None] = {}

    def __getitem__(self, name: str) -> str:
        self._names[name] = None
        return self._env[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)

    def __str__(self) -> str:
        return ", ".join(
            f"{name}={_shortened(self._env[name])}" if self._env.get(name) else f"no {name}"
            for name in self._names
        )


def _shortened(value: str) -> str:
    return value if len(value) <= 60 else f"{value[:57]}..."


def place(env: Variables) -> Place | None:
    """Return this machine's place in the job, according to the scheduler's variables.

    If no known scheduler started this process, assume that the job runs on this machine only.
    Return None if torchrun's own variables (PET_*) are set, because torchrun reads those itself.
    Raises PlaceError if the variables are incomplete, or if this process is already a worker.
    """
    environment = find(env)
    if environment is None:
        return Place(nodes=1)
    used = _Used(env)
    try:
        result = environment.read(used)
    except ValueError as error:
        raise PlaceError(f"{environment.name}: {error}") from None
    if result is not None and not 0 <= result.node_rank < result.nodes:
        raise PlaceError(
            f"{environment.name}: found machine {result.node_rank} of {result.nodes}; the machines "
            f"have the numbers 0 to {result.nodes - 1}. Correct its variables: {used}"
        )
    return result


def find(env: Variables) -> Environment | None:
    """Return the scheduler that started this process, or None if no known scheduler did."""
    for environment in ENVIRONMENTS:
        if all(env.get(variable) for variable in environment.variables):
            return environment
    return None


def _worker(env: Variables) -> Place:
    raise ValueError(
        f"this process already has rank {env['RANK']} of {env['WORLD_SIZE']}; start the program "
        "itself, without torch_google.launch"
    )


def _torchrun(env: Variables) -> None:
    return None


def _torchx(env: Variables) -> Place:
    """Read the variables that torch_google.launch.torchx sets.

    TORCHX_RANK0_ENV gives the name of the variable that contains the first machine's host name.
    """
    nodes = _number(env, "TORCHX_NODES")
    rank0 = env["TORCHX_RANK0_ENV"]
    host = env.get(rank0, "").split(",")[0]
    if not host and nodes > 1:
        raise ValueError(
            f"TORCHX_RANK0_ENV names {rank0}, which is not set; is this scheduler new?"
        )
    return Place(nodes, _number(env, "TORCHX_NODE"), host, _port(env))


def _gke_tpu(env: Variables) -> Place:
    """Read the variables that GKE sets in pods with TPUs, and MEGASCALE_* if a job spans slices."""
    names = env["TPU_WORKER_HOSTNAMES"].split(",")
    slices = _number(env, "MEGASCALE_NUM_SLICES", 1)
    host = names[0]
    if slices > 1:
        host = _required(env, "MEGASCALE_COORDINATOR_ADDRESS").partition(":")[0]
    rank = _number(env, "MEGASCALE_SLICE_ID", 0) * len(names) + _number(env, "TPU_WORKER_ID")
    return Place(slices * len(names), rank, host, _port(env))


def _jobset(env: Variables) -> Place:
    """Read the JOBSET_* variables, which the manifests of torch_google.launch.kubernetes set."""
    pods, jobs = _number(env, "JOBSET_PODS_PER_JOB"), _number(env, "JOBSET_JOBS", 1)
    rank = _number(env, "JOBSET_JOB_INDEX") * pods + _number(env, "JOB_COMPLETION_INDEX")
    return Place(jobs * pods, rank, _required(env, "MASTER_ADDR"), _port(env))


def _indexed_job(env: Variables) -> Place:
    """Read the machine's index from Kubernetes, and the other variables from the job's manifest."""
    nodes = _number(env, "PET_NNODES", None if env.get("MASTER_ADDR") else 1)
    host = env.get("MASTER_ADDR", "localhost")
    return Place(nodes, _number(env, "JOB_COMPLETION_INDEX"), host, _port(env))


def _slurm(env: Variables) -> Place:
    nodes = _number(env, "SLURM_STEP_NUM_NODES", _number(env, "SLURM_JOB_NUM_NODES", 1))
    if "SLURM_STEP_ID" not in env:
        if nodes > 1:
            raise ValueError(
                f"the job has {nodes} machines, and this process is on one of them; start it with "
                "srun"
            )
        return Place(1, processes=_gpus(env))
    tasks = _number(env, "SLURM_STEP_NUM_TASKS", nodes)
    if tasks != nodes:
        raise ValueError(
            f"srun started {tasks} tasks on {nodes} machines; give it --ntasks-per-node=1, because "
            "torchrun starts the other processes"
        )
    listed = hosts(env.get("SLURM_STEP_NODELIST") or _required(env, "SLURM_JOB_NODELIST"))
    # Jobs that share a machine must not share a port.
    port = _port(env, 20000 + _number(env, "SLURM_JOB_ID") % 10000)
    return Place(nodes, _number(env, "SLURM_NODEID"), listed[0], port, _gpus(env))


def _gpus(env: Variables) -> int | None:
    return _number(env, "SLURM_GPUS_ON_NODE", 0) or None


def _ray(env: Variables) -> Place:
    """Return the place in a one-machine job: Ray starts a job's entry point on only one machine."""
    try:
        json.loads(env["RAY_JOB_CONFIG_JSON_ENV_VAR"])
    except ValueError:
        raise ValueError("RAY_JOB_CONFIG_JSON_ENV_VAR is not JSON; start it as a Ray job") from None
    return Place(1)


def _training_operator(env: Variables) -> Place:
    """Read torch's own variables, which Kubeflow's PyTorchJob sets. RANK is the pod's index."""
    nodes = _number(env, "WORLD_SIZE")
    return Place(nodes, _number(env, "RANK"), _required(env, "MASTER_ADDR"), _port(env))


def _required(env: Variables, name: str) -> str:
    value = env.get(name, "")
    if not value:
        raise ValueError(f"{name} is not set; set it in the job's description")
    return value


def _number(env: Variables, name: str, default: int | None = None) -> int:
    value = env.get(name, "")
    if not value and default is not None:
        return default
    if not re.fullmatch(r"\d+", _required(env, name)):
        raise ValueError(f"{name}={value}: expected a number")
    return int(value)


def _port(env: Variables, default: int = _PORT) -> int:
    return _number(env, "MASTER_PORT", default)


# The first match wins, so more specific schedulers come first: for example, a TPU job on GKE may be
# an Indexed Job, and a TorchX job may run on Slurm.
ENVIRONMENTS = (
    Environment("torchrun's worker", ("LOCAL_RANK", "RANK", "WORLD_SIZE"), _worker),
    Environment("torchrun", ("PET_NNODES", "PET_NODE_RANK"), _torchrun),
    Environment("TorchX", ("TORCHX_RANK0_ENV", "TORCHX_NODES"), _torchx),
    Environment("JobSet", ("JOBSET_JOB_INDEX", "JOB_COMPLETION_INDEX"), _jobset),
    Environment("TPUs on GKE", ("TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"), _gke_tpu),
    Environment("Kubernetes Indexed Job", ("JOB_COMPLETION_INDEX",), _indexed_job),
    Environment("Slurm", ("SLURM_JOB_ID",), _slurm),
    Environment("Ray", ("RAY_JOB_CONFIG_JSON_ENV_VAR",), _ray),
    Environment("PyTorchJob", ("MASTER_ADDR", "WORLD_SIZE", "RANK"), _training_operator),
)
