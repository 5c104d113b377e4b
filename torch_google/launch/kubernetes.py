# SPDX-License-Identifier: Apache-2.0
"""Create a job's Kubernetes manifest: an Indexed Job with a Service, or a JobSet.

The result is a `List` object that `kubectl apply -f` accepts as JSON. The pods use the user ID, the
volumes and the read-only root filesystem that images built by oci_image expect. They start the
program with torch_google.launch.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from torch_google.launch.command import LAUNCH_VARIABLES

_USER = 65532
_PORT = 29500
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,45}[a-z0-9])?")  # short, because pod names add a suffix
_TOPOLOGY = re.compile(r"\d+(x\d+){1,2}")
_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"


class JobError(ValueError):
    """Raised if a field of a job is invalid. The message names the field."""


@dataclasses.dataclass(frozen=True)
class Tpu:
    """The type of a job's TPU slices on GKE.

    accelerator: the accelerator label of the node pool, such as tpu-v5p-slice.
    topology: the arrangement of a slice's chips, such as 2x2x4.
    chips: the number of chips per machine.
    """

    accelerator: str
    topology: str
    chips: int = 4

    @property
    def machines(self) -> int:
        """The number of machines in a slice. Raises JobError if the topology is invalid."""
        if not _TOPOLOGY.fullmatch(self.topology):
            raise JobError(f"topology: found {self.topology!r}, expected a form like 2x2x4")
        total = math.prod(int(size) for size in self.topology.split("x"))
        if self.chips < 1 or total < 1 or total % self.chips:
            raise JobError(
                f"topology: {self.topology} has {total} chips, which machines with {self.chips} "
                "chips cannot share evenly"
            )
        return total // self.chips


@dataclasses.dataclass(frozen=True)
class Job:
    """A job: one container per machine, in which torchrun starts the processes.

    image: the image reference, preferably with a digest: REGISTRY/REPOSITORY@sha256:...
    machines: the number of machines per slice; ignored if `tpu` is set, which implies it.
    slices: the number of slices; more than one requires JobSet in the cluster.
    processes: the number of processes per machine.
    queue: the name of a Kueue queue, or "" to set none.
    retries: the maximum number of restarts of the whole job; if not 0, the cluster needs JobSet.
    """

    name: str
    image: str
    arguments: tuple[str, ...] = ()
    machines: int = 1
    slices: int = 1
    processes: int = 1
    cpu: str = "1"
    memory: str = "4Gi"
    tpu: Tpu | None = None
    env: tuple[tuple[str, str], ...] = ()
    queue: str = ""
    retries: int = 0

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise JobError(
                f"name: found {self.name!r}, expected at most 47 lower-case letters, digits and '-'"
            )
        for field in ("machines", "slices", "processes"):
            if getattr(self, field) < 1:
                raise JobError(f"{field}: found {getattr(self, field)}, expected 1 or more")
        if not self.image:
            raise JobError("image: found none; give the address that NAME.push prints")

    @property
    def size(self) -> int:
        """The number of machines per slice."""
        return self.tpu.machines if self.tpu else self.machines


def manifest(job: Job, *, jobset: bool = False) -> dict[str, Any]:
    """Return the manifest for a job. jobset: whether to use JobSet even if a Job would suffice.

    A job with retries needs JobSet: if one machine fails, torchrun must be restarted on all
    machines, but a Job would restart only the failed one.
    """
    use_jobset = jobset or job.slices > 1 or job.retries > 0
    items = [_jobset(job)] if use_jobset else [_service(job), _job(job)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _service(job: Job) -> dict[str, Any]:
    """Return a headless Service, which gives pods DNS names. torchrun connects to the first pod."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job, queue=False),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"job-name": job.name},
        },
    }


def _job(job: Job) -> dict[str, Any]:
    pods = _pod(job, _indexed_variables(job))
    pods["spec"]["subdomain"] = job.name
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(job),
        "spec": _indexed(job, pods),
    }


def _jobset(job: Job) -> dict[str, Any]:
    metadata = _metadata(job)
    if job.tpu and job.slices > 1:
        # Place each slice in its own node pool, because GKE has one node pool per slice.
        metadata["annotations"] = {
            "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"
        }
    template = {"spec": _indexed(job, _pod(job, _jobset_variables(job)))}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "failurePolicy": {"maxRestarts": job.retries},
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [
                {"name": "workers", "replicas": job.slices, "template": template},
            ],
        },
    }


def _metadata(job: Job, *, queue: bool = True) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": job.name}
    if job.queue and queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": job.queue}
    return metadata


def _indexed(job: Job, pods: dict[str, Any]) -> dict[str, Any]:
    return {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": job.size,
        "parallelism": job.size,
        "template": pods,
    }


def _indexed_variables(job: Job) -> list[dict[str, Any]]:
    """Return the variables for torch_google.launch that Kubernetes does not set itself."""
    if job.tpu or job.size == 1:
        return []
    return [_variable("MASTER_ADDR", f"{job.name}-0.{job.name}"), _variable("PET_NNODES", job.size)]


def _jobset_variables(job: Job) -> list[dict[str, Any]]:
    path = f"metadata.labels['{_INDEX_LABEL}']"
    return [
        _variable("JOBSET_JOBS", job.slices),
        {"name": "JOBSET_JOB_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}},
        _variable("JOBSET_PODS_PER_JOB", job.size),
        _variable("MASTER_ADDR", f"{job.name}-workers-0-0.{job.name}"),
    ]


def _pod(job: Job, variables: list[dict[str, Any]]) -> dict[str, Any]:
    limits: dict[str, Any] = {"memory": job.memory}
    spec: dict[str, Any] = {}
    if job.tpu:
        limits["google.com/tpu"] = job.tpu.chips
        spec["nodeSelector"] = {
            "cloud.google.com/gke-tpu-accelerator": job.tpu.accelerator,
            "cloud.google.com/gke-tpu-topology": job.tpu.topology,
        }
    arguments = [f"--nproc-per-node={job.processes}", "--tee=3", "--", *job.arguments]
    container = {
        "name": "program",
        "image": job.image,
        "args": arguments,
        "env": [
            *(_variable(name, value) for name, value in LAUNCH_VARIABLES.items()),
            *variables,
            *(_variable(name, value) for name, value in job.env),
        ],
        "ports": [{"containerPort": _PORT, "protocol": "TCP"}],
        "resources": {"limits": limits, "requests": {"cpu": job.cpu, "memory": job.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    spec |= {
        "automountServiceAccountToken": False,
        "containers": [container],
        "restartPolicy": "Never",
        "securityContext": {
            "fsGroup": _USER,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            {"name": "cache", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            # Data loaders pass batches through /dev/shm, which by default has only 64 MB.
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }
    return {"spec": spec}


def _variable(name: str, value: object) -> dict[str, str]:
    return {"name": name, "value": str(value)}
