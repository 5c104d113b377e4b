# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu.random`: one generator per device, whose state is a seed and an offset."""

from __future__ import annotations

import torch

from torch_google.tpu import _C
from torch_google.tpu.runtime.device_index import DeviceLike, index_of

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices. This does not initialize the backend."""
    _C.seed_all(int(seed) % 2**64)


def seed() -> int:
    """Seed the current device's generator with a random number."""
    return _generator(_C.current_device()).seed()


def seed_all() -> None:
    """Seed the generators of all devices with the same random number."""
    manual_seed_all(seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return _generator(_C.current_device()).initial_seed()


def get_rng_state(device: DeviceLike = "tpu") -> torch.Tensor:
    """Return the state of a device's generator as a 16-byte CPU tensor."""
    return _generator(index_of(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "tpu") -> None:
    """Set the state of a device's generator."""
    _generator(index_of(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators."""
    return [get_rng_state(index) for index in range(_C.device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Set the states of all devices' generators, in order of device index."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _generator(index: int) -> torch.Generator:
    return _C.default_generator(index)
