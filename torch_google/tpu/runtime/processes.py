# SPDX-License-Identifier: Apache-2.0
"""Connects the processes of a job through jax.distributed, before PJRT is initialized.

torch.distributed has two transports (../collectives), which `TORCH_TPU_COLLECTIVES` selects: `host`
or `xla`. The default is `host` on the `cpu` platform, and `xla` otherwise. The `xla` transport
needs programs that span the devices of several processes, so the processes must be connected first.

Rank 0 runs JAX's coordinator. It chooses a free port and publishes the address in
torch.distributed's key-value store.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from torch_google.tpu.runtime import accelerator_nodes

_VARIABLE = "TORCH_TPU_COLLECTIVES"
_TRANSPORTS = ("host", "xla")
# The variables that torchrun sets and `init_process_group()` reads.
_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_COORDINATOR = "tpu/coordinator"
# At exit, rank 0 waits this many seconds for the other ranks, which need its coordinator.
_PATIENCE = 60.0


@dataclass(frozen=True)
class Job:
    """This process's rank in a job, the number of processes, and the job's key-value store."""

    store: Any
    rank: int
    size: int


def uses_xla(platform: str) -> bool:
    """Return whether torch.distributed uses the `xla` transport on this platform.

    Raises ValueError if TORCH_TPU_COLLECTIVES is neither `host` nor `xla`.
    """
    name = os.environ.get(_VARIABLE) or None
    if name not in (None, *_TRANSPORTS):
        raise ValueError(f"tpu: {_VARIABLE}={name}; use one of {', '.join(_TRANSPORTS)}")
    return name == "xla" if name is not None else platform != "cpu"


def expected_platform() -> str:
    """Return the platform that will be used, or "accelerator" if it may be either tpu or cuda."""
    forced = os.environ.get("TORCH_TPU_PLATFORM") or None
    return forced or ("accelerator" if accelerator_nodes.exist() else "cpu")


def offer(job: Job) -> None:
    """Save a job, which `join` joins when PJRT is initialized.

    `join` uses torchrun's variables instead if they describe the same rank and number of processes.

    Raises RuntimeError if JAX has already been initialized without a job of at least this size.
    """
    import jax
    from jax._src import xla_bridge

    if job.size == 1:
        return
    if not xla_bridge.backends_are_initialized():
        _offered[:] = [job]
    elif jax.process_count() < job.size:
        raise _late(f"has {jax.process_count()} of the {job.size} processes")


def join() -> None:
    """Join the job that `offer` saved, or the job that torchrun's variables describe.

    This is a no-op if the transport is `host`, if the job has only this process, or if a job has
    been joined already. Raises RuntimeError if JAX has already been initialized, or if the other
    processes do not join in time.
    """
    if not uses_xla(expected_platform()):
        return
    import jax
    from jax._src import xla_bridge

    job = None if jax.distributed.is_initialized() else _job()
    if job is None:
        return
    if xla_bridge.backends_are_initialized():
        raise _late("runs without the other processes")
    # Keep JAX from handling SIGTERM, which torchrun sends to terminate its processes.
    jax.config.update("jax_enable_preemption_service", False)
    # Keep JAX from aborting all processes if one of them dies.
    jax.config.update("jax_enable_recoverability", True)
    address = _address(job)
    port = address.rpartition(":")[2]
    jax.distributed.initialize(
        address,
        job.size,
        job.rank,
        local_device_ids=_local_devices(),
        cluster_detection_method="deactivate",
        coordinator_bind_address=f"{'[::]' if socket.has_dualstack_ipv6() else '0.0.0.0'}:{port}",
    )
    atexit.register(_leave, job, getattr(sys, "last_value", None))


def _job() -> Job | None:
    rank, size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    described = all(os.environ.get(name) for name in _TORCHRUN)
    if described and (not _offered or (rank, size) == _described(_offered[0])):
        if int(size) == 1:
            return None
        # Create the store in the same way as init_process_group(), which may be called later and
        # will then use the same server.
        store, _, _ = next(dist.rendezvous("env://"))
        return Job(store, int(rank), int(size))
    return _offered[0] if _offered else None


def _described(job: Job) -> tuple[str, str]:
    return str(job.rank), str(job.size)


def _address(job: Job) -> str:
    """Return the address of JAX's coordinator, which rank 0 chooses and publishes."""
    if job.rank == 0:
        host = os.environ.get("MASTER_ADDR") or _own_name()
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        job.store.set(_COORDINATOR, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return str(job.store.get(_COORDINATOR).decode())


def _own_name() -> str:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name


def _local_devices() -> list[int] | None:
    """Return a list with the one GPU that this process may use, or None to use all devices.

    Each process must use a GPU of its own, because NCCL cannot connect two processes on one GPU.
    """
    local = os.environ.get("LOCAL_RANK", "")
    gpus = expected_platform() != "cpu" and accelerator_nodes.count("cuda")
    return [int(local)] if gpus and local.isdigit() else None


def _leave(job: Job, earlier: object) -> None:
    """Leave the job at exit. Rank 0 waits for the other ranks, unless it exits because of an error.

    JAX aborts any process that is still in the job when the coordinator shuts down. `earlier` is
    the value of sys.last_value when this process joined; a different value at exit means a new
    error.
    """
    import jax

    if job.rank:
        jax.distributed.shutdown()
    try:
        job.store.set(f"tpu/exit/{job.rank}", "")
        deadline = time.monotonic() + _PATIENCE
        waits = job.rank == 0 and getattr(sys, "last_value", None) is earlier
        keys = [f"tpu/exit/{rank}" for rank in range(job.size)]
        while waits and not job.store.check(keys) and time.monotonic() < deadline:
            time.sleep(0.05)
    except RuntimeError:
        return  # The store is gone, so no process waits for this one.


def _late(state: str) -> RuntimeError:
    return RuntimeError(
        f"tpu: torch.distributed: JAX's platform {state}, so the transport xla cannot start. Call "
        "torch.distributed.init_process_group() before the first tensor on the device and before "
        f"JAX is used, or start the processes with torchrun, or set {_VARIABLE}=host"
    )


_offered: list[Job] = []
