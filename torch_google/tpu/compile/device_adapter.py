# SPDX-License-Identifier: Apache-2.0
"""The interface for converting between arrays and the tensors of a device type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch._ops import OpOverload

from torch_google.tpu.program import compile_safely, constant, tensor_of
from torch_google.tpu.runtime import interruptions
from torch_google.tpu.shardings import ONE_DEVICE, Placement


@dataclass(frozen=True)
class TensorSpec:
    """The metadata of a new tensor. `elements` is its array's padded length; None if not padded."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    elements: int | None = None


class GraphProgram(Protocol):
    """An executable of a graph, which runs and then stores new values in tensors."""

    def run(
        self,
        inputs: list[Any],
        tensors: Sequence[torch.Tensor | None],
        shardings: Sequence[int],
        donation: Any,
    ) -> Sequence[Any]:
        """Run the program, and store output i in the storage of `tensors[i]`, unless that is None.

        Return all outputs. A signal handler, which may raise KeyboardInterrupt, runs before the
        program or after the last store. `shardings` has the index in shardings.py of the sharding
        of each value to store; it is empty if the program runs on one device. `donation` is what
        entering the context of `donate` returned. Threads that wait for it continue after the last
        store.
        """


class DeviceAdapter(ABC):
    """The interface between compiled graphs and the tensors of one device type.

    A tensor's storage contains an array, and a layout maps the array's elements to the tensor's.
    `read`, `write`, `pack` and `place` run in a program, on traced arrays.
    """

    @abstractmethod
    def take(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Return the array of each tensor's storage. The caller owns a new reference to each."""

    def shardings(self, tensors: Sequence[torch.Tensor]) -> Sequence[int]:
        """Return the index of each tensor's sharding in shardings.py, or () if none is sharded."""
        return ()

    @abstractmethod
    def layout(self, tensor: torch.Tensor) -> Hashable:
        """Return a tensor's layout, which does not depend on the shape of the storage's array."""

    @abstractmethod
    def read(self, array: jax.Array, layout: Any) -> jax.Array:
        """Extract the values of a tensor with this layout from its storage's array."""

    @abstractmethod
    def write(self, array: jax.Array, values: jax.Array, layout: Any) -> jax.Array:
        """Return a copy of a storage's array in which a tensor with this layout has new values."""

    @abstractmethod
    def fit(self, tensor: torch.Tensor, array: jax.Array, elements: int) -> jax.Array:
        """Return a tensor's elements as a flat row-major array, padded to the length `elements`.

        `array` is the array that `take` returned for the tensor.
        """

    @abstractmethod
    def store(self, tensor: torch.Tensor, array: jax.Array, sharding: int = ONE_DEVICE) -> None:
        """Replace the array of a tensor's storage.

        `sharding` is the index of the new array's sharding (see shardings.py).
        """

    @abstractmethod
    def pack(self, values: jax.Array, result: TensorSpec) -> jax.Array:
        """Return the storage array of a new tensor with these values."""

    @abstractmethod
    def place(
        self,
        array: jax.Array,
        values: jax.Array,
        sizes: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> jax.Array:
        """Return an array in which the view with these sizes and strides has these values."""

    @abstractmethod
    def plan(self, results: Sequence[TensorSpec]) -> Any:
        """Return a plan that `give` uses to create tensors, all of them on one device."""

    @abstractmethod
    def give(
        self, arrays: Sequence[jax.Array], plan: Any, shardings: Sequence[int] = ()
    ) -> list[torch.Tensor]:
        """Return new tensors whose storages are `arrays`. `shardings` is () if none is sharded."""

    @abstractmethod
    def donate(
        self, args: Sequence[Any], arrays: list[Any], indices: Sequence[int]
    ) -> AbstractContextManager[Any]:
        """Prepare the arrays at these indices of `arrays` for a program that may overwrite them.

        Replaces an array with a copy if other code may use its memory, which includes code that
        has another reference to it. Until the `with` block ends, a thread that reads such a
        storage waits. The block must store the new values. If it raises an error before that, the
        storages keep their values, unless the program has overwritten them.
        """

    @abstractmethod
    def precision(self) -> str:
        """Return JAX's name for this thread's matmul precision."""

    @abstractmethod
    def draw(self, device: torch.device) -> tuple[int, int]:
        """Return the generator's seed and the number of draws so far. No pair is returned twice."""

    @abstractmethod
    def placement(self, device: torch.device, shardings: Sequence[int] = ()) -> Placement:
        """Return the devices for a program whose shardings have these indices in shardings.py."""

    @abstractmethod
    def compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        fingerprint: str | None,
        placement: Placement,
    ) -> jax.stages.Compiled:
        """Compile a program. The cache key is the fingerprint or, without one, the lowered text."""

    @abstractmethod
    def program(self, executable: jax.stages.Compiled) -> GraphProgram:
        """Return the GraphProgram that runs an executable."""

    @abstractmethod
    def takes_collectives(self) -> bool:
        """Return whether programs may contain collectives, which otherwise run between programs."""

    @abstractmethod
    def needs(self, executable: jax.stages.Compiled) -> int:
        """Return the bytes that a program needs in addition to its inputs, according to XLA."""

    def uses_cpu_kernels(self) -> bool:
        """Return whether torch's CPU kernels may run graphs whose sizes change."""
        return False

    def runs_on_cpu(self, op: OpOverload, args: Sequence[Any]) -> bool:
        """Return whether a CPU kernel may run an operator. `args` are in schema order, and fake."""
        return False

    def cpu_graph(
        self,
        arguments: int,
        steps: list[Any],
        outputs: list[Any],
        written: list[int],
        device: torch.device,
    ) -> Any:
        """Return a CpuGraph (../csrc/cpu_graph.h), in the format of cpu_graph.py."""
        raise NotImplementedError("tpu: this device type runs no graphs on CPU kernels")

    @abstractmethod
    def check_room(self, device: torch.device, needs: int) -> None:
        """Raise torch.OutOfMemoryError if the device does not have `needs` bytes of free memory."""

    @abstractmethod
    def explain(self, error: Exception) -> NoReturn:
        """Convert a program's error to the exception that torch would raise, and raise that."""

    @abstractmethod
    def count(self, event: str) -> None:
        """Count a graph event, such as `compile`, `call`, `evict` or `copy`."""

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Record why a graph with symbolic sizes needs one program per set of sizes."""


class CpuAdapter(DeviceAdapter):
    """The adapter for CPU tensors: all in a graph on the CPU, and scalars in a device's graph."""

    def take(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        # Copy the values: arrays may share memory with the tensors, and programs run later.
        return [constant(tensor.detach().clone()) for tensor in tensors]

    def layout(self, tensor: torch.Tensor) -> Hashable:
        return None

    def read(self, array: jax.Array, layout: Any) -> jax.Array:
        return array

    def write(self, array: jax.Array, values: jax.Array, layout: Any) -> jax.Array:
        return jnp.broadcast_to(values, array.shape).astype(array.dtype)

    def fit(self, tensor: torch.Tensor, array: jax.Array, elements: int) -> jax.Array:
        return constant(padded(tensor.detach(), elements))

    def store(self, tensor: torch.Tensor, array: jax.Array, sharding: int = ONE_DEVICE) -> None:
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
        positions = np.full(tuple(sizes), offset)
        for stride, grid in zip(strides, np.indices(tuple(sizes)), strict=True):
            positions += grid * stride
        return array.at[positions].set(values)

    def plan(self, results: Sequence[TensorSpec]) -> Any:
        return results

    def give(
        self, arrays: Sequence[jax.Array], plan: Any, shardings: Sequence[int] = ()
    ) -> list[torch.Tensor]:
        return [_strided_result(tensor_of(a), r) for a, r in zip(arrays, plan, strict=True)]

    def donate(
        self, args: Sequence[Any], arrays: list[Any], indices: Sequence[int]
    ) -> AbstractContextManager[Any]:
        for index in indices:
            arrays[index] = arrays[index].copy()
        return nullcontext()

    def precision(self) -> str:
        return "default"

    def draw(self, device: torch.device) -> tuple[int, int]:
        return int(torch.randint(2**62, (), device="cpu")), 0

    def placement(self, device: torch.device, shardings: Sequence[int] = ()) -> Placement:
        return Placement(jax.local_devices(backend="cpu")[0])

    def compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        fingerprint: str | None,
        placement: Placement,
    ) -> jax.stages.Compiled:
        return compile_safely(lower())

    def program(self, executable: jax.stages.Compiled) -> GraphProgram:
        return _CpuProgram(self, executable)

    def takes_collectives(self) -> bool:
        return True

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


@dataclass(frozen=True)
class _CpuProgram:
    """A program for CPU tensors. It gets copies of their values, so it overwrites no tensor."""

    adapter: CpuAdapter
    executable: jax.stages.Compiled

    def run(
        self,
        inputs: list[Any],
        tensors: Sequence[torch.Tensor | None],
        shardings: Sequence[int],
        donation: Any,
    ) -> Sequence[Any]:
        outputs = self.executable(*inputs)
        # If Ctrl-C took effect between two stores, only some tensors would have new values.
        with interruptions.delayed():
            for tensor, array in zip(tensors, outputs, strict=False):
                if tensor is not None:
                    self.adapter.store(tensor, array)
        return outputs


_ADAPTERS: dict[str, DeviceAdapter] = {"cpu": CpuAdapter()}


def register_adapter(device_type: str, adapter: DeviceAdapter) -> None:
    """Register the adapter for a device type. Raises ValueError if the type already has one."""
    if _ADAPTERS.get(device_type, adapter) is not adapter:
        raise ValueError(
            f"tpu: {type(_ADAPTERS[device_type]).__name__} already serves tensors of "
            f"'{device_type}'. Do not register {type(adapter).__name__}"
        )
    _ADAPTERS[device_type] = adapter


@contextmanager
def replaced_adapters(adapters: Mapping[str, DeviceAdapter]) -> Iterator[None]:
    """Replace the adapters of these device types, in all threads, until the `with` block ends."""
    before = dict(_ADAPTERS)
    _ADAPTERS.update(adapters)
    try:
        yield
    finally:
        _ADAPTERS.clear()
        _ADAPTERS.update(before)


def adapter_of(device: torch.device) -> DeviceAdapter:
    """Return the adapter for a device. Raises NotImplementedError if its type has none."""
    try:
        return _ADAPTERS[device.type]
    except KeyError:
        raise NotImplementedError(
            f"tpu: the backend 'tpu' cannot run tensors on {device}. Move them to tpu, or name "
            "another backend"
        ) from None


def padded(tensor: torch.Tensor, elements: int) -> torch.Tensor:
    """Return a CPU tensor's elements in row-major order, padded with zeros to length `elements`."""
    flat = torch.zeros(elements, dtype=tensor.dtype, device="cpu")
    flat[: tensor.numel()].view(tensor.shape).copy_(tensor)
    return flat


def _strided_result(array: torch.Tensor, result: TensorSpec) -> torch.Tensor:
    if result.elements is None:
        return _strided(array, result)
    return array.as_strided(result.sizes, result.strides).clone()


def _strided(dense: torch.Tensor, result: TensorSpec) -> torch.Tensor:
    if dense.stride() == result.strides:
        # Not a view, because autograd rejects writes to a view that a function returned.
        whole = torch.empty(0, dtype=dense.dtype, device="cpu")
        return whole.set_(dense.untyped_storage(), 0, dense.shape, dense.stride())
    tensor = torch.empty_strided(result.sizes, result.strides, dtype=result.dtype, device="cpu")
    if 0 in result.strides:  # an expanded tensor cannot be written in place
        index = tuple(slice(0, 1) if step == 0 else slice(None) for step in result.strides)
        tensor[index].copy_(dense[index])
        return tensor
    return tensor.copy_(dense)
