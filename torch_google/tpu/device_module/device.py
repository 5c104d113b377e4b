# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu`: devices, streams, random numbers, memory and modes."""

from __future__ import annotations

from typing import Any

import torch

from torch_google.tpu import _C, profiler
from torch_google.tpu.cache import get_compile_cache, set_compile_cache
from torch_google.tpu.device_module import random
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
from torch_google.tpu.runtime.device_index import DeviceLike, index_of
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

__all__ = [
    "CacheMissError",
    "DeviceProperties",
    "Event",
    "Metrics",
    "Stream",
    "StreamContext",
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
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_per_process_memory_fraction",
    "get_precision",
    "get_program_limit",
    "get_rng_state",
    "get_rng_state_all",
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
    "set_device",
    "set_eager_mode",
    "set_fused_limits",
    "set_per_process_memory_fraction",
    "set_precision",
    "set_program_limit",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_thread_eager_mode",
    "stream",
    "synchronize",
    "wait_for_compiles",
]


def is_available() -> bool:
    """Whether there is a device: always, as the CPU is a platform of PJRT's."""
    return True


def init() -> None:
    """Start the platform now, instead of at the first tensor."""
    _C.start()


def __getattr__(name: str) -> Any:
    """`_initialized`: what checkpointing asks before it keeps the state of random numbers.

    `_lazy_init`: what torch v2.6 calls before it believes that there is something to wait for.
    """
    if name == "_initialized":
        return is_initialized()
    if name == "_lazy_init" and V2_6:
        return init
    raise AttributeError(f"module 'torch.tpu' has no attribute {name!r}")


def is_initialized() -> bool:
    """Whether the platform runs."""
    return bool(_C.started())


def _is_in_bad_fork() -> bool:
    return bool(_C.is_forked())


def device_count() -> int:
    """Return how many devices there are; starts the platform."""
    if _is_in_bad_fork():
        return 0
    _C.start()
    return int(_C.device_count())


def current_device() -> int:
    """Return the index of this thread's device."""
    return int(_C.current_device())


def set_device(device: DeviceLike) -> None:
    """Make a device this thread's own."""
    torch.accelerator.set_device_index(index_of(device))


class device(ScopedSetting):  # noqa: N801 - as torch.cuda has it
    """Use a device within a `with` block, or a function."""

    def __init__(self, device: DeviceLike) -> None:
        super().__init__(current_device, set_device, index_of(device))


class device_of(device):  # noqa: N801 - as torch.cuda has it
    """Use the device of a tensor of tpu within a block or a function; of any other, change nothing."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "tpu" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Wait until every value on a device is there. Raises what its computation raised."""
    if _C.started() or _C.is_forked():
        synchronize_device(index_of(device))


class Stream(StreamBase):
    """A label for the work that a thread issues, to wait for it apart from other work.

    Values are immutable and each knows when it is ready, so streams need no order among themselves.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0) -> Stream:
        """Make a new stream of a device."""
        made = super().__new__(cls, device=f"tpu:{index_of(device)}", priority=priority)
        return made


class Event(torch.Event):
    """A moment in the work of a stream: all values that existed when it was recorded.

    Makes a torch.Event itself: elapsed_time takes no other.
    """

    def __new__(
        cls,
        device: DeviceLike = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> torch.Event:
        """Make an event; `enable_timing` notes when it is reached, for elapsed_time.

        A thread that waits for one always sleeps, whatever `blocking` says. Raises ValueError for
        `interprocess`: arrays and their moments are a process's own.
        """
        if isinstance(device, bool):
            raise TypeError(
                f"tpu: an event's device is {device}. Write Event(enable_timing={device})"
            )
        if interprocess:
            raise ValueError(
                "tpu: an event cannot be seen from another process. Make one with interprocess=False "
                "and let processes wait by what joins them: a queue, a barrier"
            )
        return torch.Event(
            f"tpu:{index_of(device)}", enable_timing=enable_timing, blocking=blocking
        )


def current_stream(device: DeviceLike = None) -> torch.Stream:
    """Return the stream of this thread on a device."""
    index = index_of(device)
    check_stream_device(index)
    return torch.accelerator.current_stream(index)


def default_stream(device: DeviceLike = None) -> torch.Stream:
    """Return the stream that a device's threads have until they set another."""
    return torch.Stream(
        stream_id=0,
        device_index=index_of(device),
        device_type=int(torch._C._autograd.DeviceType.PrivateUse1),
    )


def set_stream(stream: torch.Stream) -> None:
    """Make a stream this thread's own on its device."""
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream | None) -> Any:
    """Return a context in which a stream is this thread's own; None changes nothing."""
    return stream_context(stream)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes of autocast, the default first."""
    return [torch.bfloat16, torch.float16]
