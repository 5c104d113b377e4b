# SPDX-License-Identifier: Apache-2.0
"""How the tensors of a device become arrays, and arrays its tensors: one row for each device."""

from __future__ import annotations

from abc import ABC, abstractmethod

import jax
import torch

from torch_google.tpu.program import constant, tensor_of


class Carrier(ABC):
    @abstractmethod
    def take(self, tensor: torch.Tensor) -> jax.Array:
        """Return the values of a tensor, of its shape and dtype."""

    @abstractmethod
    def give(self, array: jax.Array, like: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Return a new tensor with such values on a device; `like` has its strides."""

    @abstractmethod
    def key(self, device: torch.device) -> jax.Array:
        """Return a new random key, from the device's generator."""


class _Host(Carrier):
    """Tensors of the CPU: what tests of the compiler need no device for."""

    def take(self, tensor: torch.Tensor) -> jax.Array:
        return constant(tensor)

    def give(self, array: jax.Array, like: torch.Tensor, device: torch.device) -> torch.Tensor:
        dense = tensor_of(array)
        if like.is_contiguous():
            return dense
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).copy_(dense)

    def key(self, device: torch.device) -> jax.Array:
        return jax.random.key(int(torch.randint(2**62, (), device="cpu")))


_CARRIERS: dict[str, Carrier] = {"cpu": _Host()}


def carry(device_type: str, carrier: Carrier) -> None:
    """Let a carrier serve a type of device. A second one for the same type raises ValueError."""
    if device_type in _CARRIERS:
        raise ValueError(
            f"tpu: {type(_CARRIERS[device_type]).__name__} serves tensors of '{device_type}' "
            f"already. Do not register {type(carrier).__name__}"
        )
    _CARRIERS[device_type] = carrier


def carrier_of(device: torch.device) -> Carrier:
    """Return the carrier for a device. Raises NotImplementedError for a device of others."""
    try:
        return _CARRIERS[device.type]
    except KeyError:
        raise NotImplementedError(
            f"tpu: the backend 'tpu' cannot run tensors of {device}. Move them to tpu, or name "
            "another backend"
        ) from None
