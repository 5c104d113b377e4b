# SPDX-License-Identifier: Apache-2.0
"""The functions of `torch.tpu`: devices, streams, random numbers, memory and modes."""

from __future__ import annotations

from typing import Any

import torch

from torch_google.tpu import _C, profiler
from torch_google.tpu.cache import get_compile_cache, set_compile_cache
from torch_google.tpu.device_module import amp, random
from torch_google.tpu.device_module.modes import (
    cache_only,
    cpu_fallback,
    eager_mode,
    get_eager_mode,
    set_cache_only,
    set_eager_mode,
    set_fused_limits,
    set_thread_eager_mode,
    wait_for_compiles,
)
from torch_google.tpu.device_module.properties import (
    DeviceProperties,
    can_device_access_peer,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_bf16_supported,
)
from torch_google.tpu.device_module.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime import memory
from torch_google.tpu.runtime.accelerator import (
    StreamBase,
    StreamContext,
    check_stream_device,
    stream_context,
    synchronize_device,
)
from torch_google.tpu.runtime.cache_miss import CacheMissError
from torch_google.tpu.runtime.cpu_kernel_setting import get_cpu_kernels, set_cpu_kernels
from torch_google.tpu.runtime.device_index import (
    DeviceLike,
    current_index,
    index_of,
    started_devices,
)
from torch_google.tpu.runtime.memory import (
    empty_cache,
    get_per_process_memory_fraction,
    ipc_collect,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_google.tpu.runtime.metrics import Metrics, metrics, reset_metrics
from torch_google.tpu.runtime.precision import get_precision, precision, set_precision
from torch_google.tpu.runtime.program_limit import get_program_limit, set_program_limit
from torch_google.tpu.runtime.scoped_setting import ScopedSetting
from torch_google.tpu.runtime.size_bucket_setting import get_size_buckets, set_size_buckets

__all__ = [
    "CacheMissError",
    "DeviceProperties",
    "Event",
    "Metrics",
    "Stream",
    "StreamContext",
    "amp",
    "cache_only",
    "can_device_access_peer",
    "cpu_fallback",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_compile_cache",
    "get_cpu_kernels",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_per_process_memory_fraction",
    "get_precision",
    "get_program_limit",
    "get_rng_state",
    "get_rng_state_all",
    "get_size_buckets",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "metrics",
    "precision",
    "profiler",
    "random",
    "reset_accumulated_memory_stats",
    "reset_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_cache_only",
    "set_compile_cache",
    "set_cpu_kernels",
    "set_device",
    "set_eager_mode",
    "set_fused_limits",
    "set_per_process_memory_fraction",
    "set_precision",
    "set_program_limit",
    "set_rng_state",
    "set_rng_state_all",
    "set_size_buckets",
    "set_stream",
    "set_thread_eager_mode",
    "stream",
    "synchronize",
    "wait_for_compiles",
]


def is_available() -> bool:
    """Return True, because there is always a device: PJRT also has a CPU platform."""
    return True


def init() -> None:
    """Initialize the backend. By default, creating the first tensor initializes it."""
    _C.start()


def __getattr__(name: str) -> Any:
    """Return `_initialized` or `_lazy_init`, which torch reads.

    torch's checkpointing reads `_initialized` before it saves random states. torch v2.6 calls
    `_lazy_init` before it waits for a device.
    """
    if name == "_initialized":
        return bool(_C.started())
    if name == "_lazy_init" and V2_6:
        return init
    raise AttributeError(f"module 'torch.tpu' has no attribute {name!r}")


def is_initialized() -> bool:
    """Return whether the backend is initialized or the user has selected a device.

    A DeviceMesh selects a device only if the result is False, because, as with CUDA, it must
    keep a device that the user has selected.
    """
    return bool(_C.started() or _C.is_device_selected())


def _is_in_bad_fork() -> bool:
    return bool(_C.is_forked())


def device_count() -> int:
    """Initialize the backend and return the number of devices."""
    if _is_in_bad_fork():
        return 0
    return started_devices()


def current_device() -> int:
    """Return the index of this thread's current device."""
    return current_index()


def set_device(device: DeviceLike) -> None:
    """Set this thread's current device. This does not initialize the backend."""
    torch.accelerator.set_device_index(index_of(device))


class device(ScopedSetting):  # noqa: N801 - as in torch.cuda
    """Set this thread's current device in a `with` block or in a decorated function."""

    def __init__(self, device: DeviceLike) -> None:
        super().__init__(current_device, set_device, index_of(device))


class device_of(device):  # noqa: N801 - as in torch.cuda
    """Make a tensor's device the current device in a `with` block, if it is a tpu device."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "tpu" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Wait until a device has finished all work. If a computation failed, raise its error."""
    if torch.compiler.is_dynamo_compiling():
        torch.accelerator.synchronize(index_of(device))
    elif _C.started() or _C.is_forked():
        synchronize_device(index_of(device))


class Stream(StreamBase):
    """A label for the work that a thread issues, so that other code can wait for only that work.

    Arrays are immutable, and each program waits for the arrays that it reads, so work on different
    streams needs no explicit ordering.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0) -> Stream:
        """Create a stream on a device. None means the current device."""
        name = f"tpu:{index_of(device)}"
        if torch.compiler.is_dynamo_compiling():
            # Dynamo can create a torch.Stream, but not an instance of another class.
            return torch.Stream(device=name, priority=priority)
        stream = super().__new__(cls, device=name, priority=priority)
        return stream


class Event(torch.Event):
    """An event in a stream. It completes when all work issued before it was recorded is done.

    The constructor returns a torch.Event, because elapsed_time accepts no other type.
    """

    def __new__(
        cls,
        device: DeviceLike = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> torch.Event:
        """Create an event. If `enable_timing` is set, the event records the time for elapsed_time.

        A thread that waits for the event always sleeps, whether or not `blocking` is set. Raises
        ValueError if `interprocess` is set, because other processes cannot see the event.
        """
        if isinstance(device, bool):
            raise TypeError(
                f"tpu: an event's device is {device}. Write Event(enable_timing={device})"
            )
        if interprocess:
            raise ValueError(
                "tpu: an event is not visible to other processes. Use interprocess=False, and "
                "synchronize processes with a queue or a barrier"
            )
        return torch.Event(
            f"tpu:{index_of(device)}", enable_timing=enable_timing, blocking=blocking
        )


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """Return this thread's current stream on a device. None means the current device."""
    index = index_of(device)
    check_stream_device(index)
    return torch.accelerator.current_stream(index)


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """Return the default stream of a device. None means the current device."""
    return torch.Stream(
        stream_id=0,
        device_index=index_of(device),
        device_type=_DEVICE_TYPE,
    )


# Dynamo cannot trace the conversion of this enum member to an integer.
_DEVICE_TYPE = int(torch._C._autograd.DeviceType.PrivateUse1)


def set_stream(stream: torch.Stream) -> None:
    """Make a stream the current stream of its device, in this thread."""
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream | None) -> Any:
    """Return a context manager that makes a stream current in this thread. None is a no-op."""
    return stream_context(stream)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that autocast supports, starting with the default."""
    return [torch.bfloat16, torch.float16]
