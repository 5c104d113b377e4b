# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu`: devices, streams, random numbers, memory and modes."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from torch_google.tpu import _C, profiler
from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.metrics import Metrics, metrics, reset_metrics
from torch_google.tpu.runtime.modes import cpu_fallback, eager_mode, get_eager_mode, set_eager_mode

__all__ = [
    "Event",
    "Metrics",
    "Stream",
    "cpu_fallback",
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "eager_mode",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_eager_mode",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "metrics",
    "profiler",
    "reset_metrics",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_eager_mode",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

Which: TypeAlias = torch.device | str | int | None


def is_available() -> bool:
    """Whether there is a device: always, as the CPU is a platform of PJRT's."""
    return True


def init() -> None:
    """Start the platform now, instead of at the first tensor."""
    _C.start()


def is_initialized() -> bool:
    """Whether the platform runs."""
    return bool(_C.started())


def _is_in_bad_fork() -> bool:
    return bool(_C.is_forked())


def device_count() -> int:
    """Return how many devices there are; starts the platform."""
    return platform.start() if not _is_in_bad_fork() else 0


def current_device() -> int:
    """Return the index of this thread's device."""
    return int(_C.current_device())


def set_device(device: Which) -> None:
    """Make a device this thread's own."""
    torch.accelerator.set_device_index(_index(device))


class device:  # noqa: N801 - as torch.cuda has it
    """Use a device within a `with` block."""

    def __init__(self, device: Which) -> None:
        self._index = _index(device)
        self._before = -1

    def __enter__(self) -> None:
        self._before = current_device()
        set_device(self._index)

    def __exit__(self, *_: object) -> None:
        set_device(self._before)


def synchronize(device: Which = None) -> None:
    """Wait until every value on a device is there. Raises what its computation raised."""
    if _C.started():
        torch.accelerator.synchronize(_index(device))


class Stream(torch.Stream):
    """A label for the work that a thread issues, to wait for it apart from other work.

    Values are immutable and each knows when it is ready, so streams need no order among themselves.
    """

    def __new__(cls, device: Which = None, priority: int = 0) -> Stream:
        """Make a new stream of a device."""
        made = super().__new__(cls, device=f"tpu:{_index(device)}", priority=priority)
        return made


class Event(torch.Event):
    """A moment in the work of a stream: all values that existed when it was recorded.

    Makes a torch.Event itself: elapsed_time takes no other.
    """

    def __new__(cls, device: Which = None, *, enable_timing: bool = False) -> torch.Event:
        """Make an event; `enable_timing` notes when it is reached, for elapsed_time."""
        return torch.Event(f"tpu:{_index(device)}", enable_timing=enable_timing)


def current_stream(device: Which = None) -> torch.Stream:
    """Return the stream of this thread on a device."""
    return torch.accelerator.current_stream(_index(device))


def set_stream(stream: torch.Stream) -> None:
    """Make a stream this thread's own on its device."""
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> Any:
    """Return a context in which a stream is this thread's own."""
    return stream


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    _generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; does not start the platform."""
    _C.seed_all(int(seed) % 2**64)


def seed() -> int:
    """Seed the generator of the current device with a number that nobody knows."""
    return _generator(current_device()).seed()


def seed_all() -> None:
    """Seed the generators of all devices with one number that nobody knows."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return _generator(current_device()).initial_seed()


def get_rng_state(device: Which = "tpu") -> torch.Tensor:
    """Return the state of a device's generator: 16 bytes on the CPU."""
    return _generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Which = "tpu") -> None:
    """Set the state of a device's generator."""
    _generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Set the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def memory_stats(device: Which = None) -> dict[str, Any]:
    """Return the allocator's statistics, under torch's names."""
    return dict(torch.accelerator.memory_stats(_index(device)))


def memory_allocated(device: Which = None) -> int:
    """Return the bytes of all live storages of a device."""
    return int(torch.accelerator.memory_allocated(_index(device)))


def max_memory_allocated(device: Which = None) -> int:
    """Return the most bytes that were live at once since the last reset."""
    return int(torch.accelerator.max_memory_allocated(_index(device)))


def reset_peak_memory_stats(device: Which = None) -> None:
    """Let max_memory_allocated begin at what is live now."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def empty_cache() -> None:
    """Do nothing: memory that nobody uses is free already."""


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes of autocast, the default first."""
    return [torch.bfloat16, torch.float16]


def _generator(index: int) -> torch.Generator:
    return _C.default_generator(index)


def _index(device: Which) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    named = torch.device(device)
    if named.type != "tpu":
        raise ValueError(f"tpu: expected a device of type tpu, found '{named}'")
    return current_device() if named.index is None else named.index
