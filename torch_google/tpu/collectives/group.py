# SPDX-License-Identifier: Apache-2.0
"""Creates the `tpu` backend for torch.distributed.

torch uses this backend for process groups created without a backend name. It imports this module
when it creates the first such group.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch._C._distributed_c10d import PrefixStore, ProcessGroup, ProcessGroupGloo

from torch_google.tpu import _C
from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime import platform, processes

# The torch function that creates a group and calls `backend`.
_CREATOR = "_new_process_group_helper"


def backend(options: Any, more: Any) -> Any:
    """Create a group's backend. torch calls this function through its registry of backends.

    `options` holds the store, rank, size and timeout. The backend also handles CPU tensors, with
    gloo. The function connects the ranks of the group, so it waits for all of them. Raises
    ValueError if `more` (pg_options) is given, because the backend has no options.
    """
    if more is not None:
        raise ValueError(
            f"tpu: init_process_group: found pg_options of {type(more).__name__}, but the backend "
            "tpu has no options. Leave them out"
        )
    _C.define_backend()
    transport = _transport(options)
    cpu = _gloo(options, "cpu")
    result = _C.Backend(
        gloo=_gloo(options, "tpu"),
        cpu=cpu,
        store=PrefixStore("tpu/state", options.store),
        group=options.group_id,
        global_ranks=_global_ranks(options),
        timeout=options.timeout.total_seconds(),
        transport=transport,
    )
    _complete(cpu)
    return result


def _transport(options: Any) -> Any:
    """Return the object that moves data between devices, or None for the `host` transport.

    Initializes the JAX backend for the `xla` transport. Raises RuntimeError if the backend was
    already initialized without the other processes, and ValueError if a rank uses a different
    transport.
    """
    rank, size, store = options.group_rank, options.group_size, options.store
    own = "xla" if processes.uses_xla(processes.expected_platform()) else "host"
    if own == "xla":
        processes.offer(processes.Job(store, rank, size))
    store.set(f"tpu/transport/{rank}", own)
    # JAX would wait forever for a rank that uses gloo, so check all ranks first.
    for peer in range(size) if own == "xla" else [0]:
        other = store.get(f"tpu/transport/{peer}").decode()
        if other != own:
            raise ValueError(
                f"tpu: init_process_group: rank {peer} of the group uses the transport {other}, and "
                f"rank {rank} uses {own}. Set TORCH_TPU_COLLECTIVES to the same value on all ranks"
            )
    if own == "host":
        return None
    _C.start()
    if not processes.uses_xla(platform.name()):
        return None
    from torch_google.tpu.collectives import transport  # this import loads JAX

    return transport.of_group(store, rank, size)


def _gloo(options: Any, name: str) -> ProcessGroupGloo:
    gloo = ProcessGroupGloo(
        PrefixStore(f"{name}/", options.store),
        options.group_rank,
        options.group_size,
        timeout=options.timeout,
    )
    if not V2_6:
        # Set the same options as torch does for its own gloo groups. For example, split_group()
        # reads the ranks from them.
        gloo.options.global_ranks_in_group = _global_ranks(options)
        gloo.options.group_name = options.group_id
    gloo._set_sequence_number_for_group()
    return gloo


def _global_ranks(options: Any) -> list[int]:
    # The list is empty for the default group, which includes all ranks.
    return list(options.global_ranks_in_group) or list(range(options.group_size))


def _complete(cpu: ProcessGroupGloo) -> None:
    """Register the CPU backend or set the default backend of a new group, if either is missing.

    torch does so itself, but only for its own backends. It does not pass the group to this backend,
    so this function finds the group among the local variables of `_CREATOR`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != _CREATOR:
        frame = frame.f_back
    if frame is None:
        return
    group = frame.f_locals["pg"]
    devices = frame.f_locals["backend_config"].get_device_backend_map()
    if "cpu" not in devices:
        # If the user does not specify a backend, torch uses `tpu` only for tensors on the
        # accelerator.
        group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, cpu)
    elif len(set(devices.values())) > 1:
        # For "cpu:gloo,tpu:tpu", torch sets no default backend, and later warns that it is missing.
        group._set_default_backend(ProcessGroup.BackendType.CUSTOM)
