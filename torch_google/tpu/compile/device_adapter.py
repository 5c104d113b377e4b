# SPDX-License-Identifier: Apache-2.0
"""How the tensors of a device become arrays, and arrays its tensors: one row for each device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu.program import constant, tensor_of


@dataclass(frozen=True)
class TensorSpec:
    """A new tensor, as torch has it. `elements`: the length of its flat array, if that is padded."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    elements: int | None = None


class DeviceAdapter(ABC):
    """What lies in the storage of a tensor is an array; a layout says how the tensor sees it.

    `read`, `write` and `pack` run within a program, on traced arrays.
    """

    @abstractmethod
    def take(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Return the arrays of tensors' storages, each of which has one reference."""

    @abstractmethod
    def layout(self, tensor: torch.Tensor) -> Hashable:
        """Return how a tensor sees its array, which has any shape."""

    @abstractmethod
    def read(self, array: jax.Array, layout: Any) -> jax.Array:
        """Return the values that a tensor sees."""

    @abstractmethod
    def write(self, array: jax.Array, values: jax.Array, layout: Any) -> jax.Array:
        """Return the array with other values where a tensor sees them."""

    @abstractmethod
    def fit(self, tensor: torch.Tensor, array: jax.Array, elements: int) -> jax.Array:
        """Return a flat array of such a length, with a tensor's elements first, in row-major order.

        `array` is what `take` gave for the tensor.
        """

    @abstractmethod
    def store(self, tensor: torch.Tensor, array: jax.Array) -> None:
        """Give a tensor's storage another array."""

    @abstractmethod
    def pack(self, values: jax.Array, result: TensorSpec) -> jax.Array:
        """Return the array of a new tensor."""

    @abstractmethod
    def place(
        self,
        array: jax.Array,
        values: jax.Array,
        sizes: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> jax.Array:
        """Return a flat array with other values where a view of it would see them."""

    @abstractmethod
    def plan(self, results: Sequence[TensorSpec]) -> Any:
        """Return what `give` needs to know of new tensors, all of one device."""

    @abstractmethod
    def give(self, arrays: Sequence[jax.Array], plan: Any) -> list[torch.Tensor]:
        """Return new tensors over packed arrays."""

    @abstractmethod
    def is_shared(self, tensor: torch.Tensor) -> bool:
        """Whether something other than arrays may look at what lies in a tensor's storage."""

    @abstractmethod
    def precision(self) -> str:
        """Return the precision of products that holds in this thread: a name of JAX's."""

    @abstractmethod
    def draw(self, device: torch.device) -> tuple[int, int]:
        """Return a seed, and how often was drawn with it: never twice the same."""

    @abstractmethod
    def sharding(self, device: torch.device) -> jax.sharding.Sharding:
        """Return where programs run."""

    @abstractmethod
    def compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        fingerprint: str | None,
        device: torch.device,
    ) -> jax.stages.Compiled:
        """Return the executable of a program, which its fingerprint or its text tells from others."""

    @abstractmethod
    def needs(self, executable: jax.stages.Compiled) -> int:
        """Return the bytes that a program needs beside its inputs, as far as is known."""

    @abstractmethod
    def check_room(self, device: torch.device, needs: int) -> None:
        """Raise torch.OutOfMemoryError where a device has no room for so many bytes more."""

    @abstractmethod
    def explain(self, error: Exception) -> NoReturn:
        """Raise what a program raised, in terms of torch."""

    @abstractmethod
    def count(self, event: str) -> None:
        """Note one of the things that happen to graphs: `compile`, `call`, `evict`, `copy`."""

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Note that a graph with symbols has a program for each set of sizes, and why."""


class CpuAdapter(DeviceAdapter):
    """Tensors of the CPU: numbers beside those of a device, or whole graphs where there is none."""

    def take(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        # Copies: programs run later, and the arrays may share memory with the tensors.
        return [constant(tensor.detach().clone()) for tensor in tensors]

    def layout(self, tensor: torch.Tensor) -> Hashable:
        return None

    def read(self, array: jax.Array, layout: Any) -> jax.Array:
        return array

    def write(self, array: jax.Array, values: jax.Array, layout: Any) -> jax.Array:
        return jnp.broadcast_to(values, array.shape).astype(array.dtype)

    def fit(self, tensor: torch.Tensor, array: jax.Array, elements: int) -> jax.Array:
        return constant(padded(tensor.detach(), elements))

    def store(self, tensor: torch.Tensor, array: jax.Array) -> None:
        with torch.no_grad():
            tensor.copy_(tensor_of(array))

    def pack(self, values: jax.Array, result: TensorSpec) -> jax.Array:
        return values

    def place(
        self,
        array: jax.Array,
        values: jax.Array,
        sizes: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> jax.Array:
        at = np.full(tuple(sizes), offset)
        for stride, grid in zip(strides, np.indices(tuple(sizes)), strict=True):
            at += grid * stride
        return array.at[at].set(values)

    def plan(self, results: Sequence[TensorSpec]) -> Any:
        return results

    def give(self, arrays: Sequence[jax.Array], plan: Any) -> list[torch.Tensor]:
        return [_given(tensor_of(a), r) for a, r in zip(arrays, plan, strict=True)]

    def is_shared(self, tensor: torch.Tensor) -> bool:
        return True

    def precision(self) -> str:
        return "default"

    def draw(self, device: torch.device) -> tuple[int, int]:
        return int(torch.randint(2**62, (), device="cpu")), 0

    def sharding(self, device: torch.device) -> jax.sharding.Sharding:
        return jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])

    def compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        fingerprint: str | None,
        device: torch.device,
    ) -> jax.stages.Compiled:
        return lower().compile()

    def needs(self, executable: jax.stages.Compiled) -> int:
        return 0

    def check_room(self, device: torch.device, needs: int) -> None:
        pass

    def explain(self, error: Exception) -> NoReturn:
        raise error

    def count(self, event: str) -> None:
        pass

    def refuse(self, reason: str) -> None:
        pass


_ADAPTERS: dict[str, DeviceAdapter] = {"cpu": CpuAdapter()}


def register_adapter(device_type: str, adapter: DeviceAdapter) -> None:
    """Let an adapter serve a type of device. Another one for the same type raises ValueError."""
    if _ADAPTERS.get(device_type, adapter) is not adapter:
        raise ValueError(
            f"tpu: {type(_ADAPTERS[device_type]).__name__} serves tensors of '{device_type}' "
            f"already. Do not register {type(adapter).__name__}"
        )
    _ADAPTERS[device_type] = adapter


def adapter_of(device: torch.device) -> DeviceAdapter:
    """Return the adapter for a device. Raises NotImplementedError for a device of others."""
    try:
        return _ADAPTERS[device.type]
    except KeyError:
        raise NotImplementedError(
            f"tpu: the backend 'tpu' cannot run tensors of {device}. Move them to tpu, or name "
            "another backend"
        ) from None


def padded(tensor: torch.Tensor, elements: int) -> torch.Tensor:
    """Return a flat tensor of the CPU: the elements of one in row-major order, and then zeros."""
    made = torch.zeros(elements, dtype=tensor.dtype, device="cpu")
    made[: tensor.numel()].view(tensor.shape).copy_(tensor)
    return made


def _given(array: torch.Tensor, result: TensorSpec) -> torch.Tensor:
    if result.elements is None:
        return _strided(array, result)
    return array.as_strided(result.sizes, result.strides).clone()


def _strided(dense: torch.Tensor, result: TensorSpec) -> torch.Tensor:
    if dense.stride() == result.strides:
        return dense
    made = torch.empty_strided(result.sizes, result.strides, dtype=result.dtype, device="cpu")
    if 0 in result.strides:  # an expanded tensor cannot be written as it is
        seen = tuple(slice(0, 1) if step == 0 else slice(None) for step in result.strides)
        made[seen].copy_(dense[seen])
        return made
    return made.copy_(dense)
