# SPDX-License-Identifier: Apache-2.0
"""The TpuAdapter, which converts between the device's tensors and the arrays of a graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import torch
from torch._ops import OpOverload

from torch_google.tpu import _C, dtypes
from torch_google.tpu.compile import DeviceAdapter, TensorSpec, register_adapter
from torch_google.tpu.compile.device_adapter import GraphProgram, padded
from torch_google.tpu.eager import NewTensor, cpu_kernels
from torch_google.tpu.lowerings.collectives import TARGET
from torch_google.tpu.runtime import arrays, compiler, errors, metrics, platform, processes
from torch_google.tpu.runtime.dynamo_skip import untraced
from torch_google.tpu.runtime.strides import View, natural, read, write
from torch_google.tpu.runtime.transfer import to_host
from torch_google.tpu.shardings import ONE_DEVICE, Placement

# The names of the matmul precisions, indexed by the values that C++ uses for them.
_PRECISIONS = ("default", "high", "highest")

_GRAPH = "a graph of torch.compile's"


class TpuAdapter(DeviceAdapter):
    def take(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        return _C.values(list(tensors))

    def shardings(self, tensors: Sequence[torch.Tensor]) -> Sequence[int]:
        return _C.shardings(tensors)

    def layout(self, tensor: torch.Tensor) -> Hashable:
        return View.of(tensor)

    def read(self, array: jax.Array, layout: Any) -> jax.Array:
        return read(array, layout)

    def write(self, array: jax.Array, values: jax.Array, layout: Any) -> jax.Array:
        return write(array, values.astype(dtypes.to_jax(layout.dtype)), layout)

    def fit(self, tensor: torch.Tensor, array: jax.Array, elements: int) -> jax.Array:
        if array.shape == (elements,) and tensor.is_contiguous() and not _is_odd(tensor, array):
            return array
        metrics.graph("pad")
        if platform.name() == "cpu":
            index = tensor.device.index or 0
            return arrays.from_host(padded(to_host(tensor), elements), index)
        return _fitted(array.sharding, View.of(tensor), elements)(array)

    def store(self, tensor: torch.Tensor, array: jax.Array, sharding: int = ONE_DEVICE) -> None:
        _C.store(tensor, array, sharding)

    def pack(self, values: jax.Array, result: TensorSpec) -> jax.Array:
        dtypes.check(result.dtype, platform.name())
        lies = natural(result.sizes, result.strides)
        if lies.strides == result.strides:
            return values.transpose(lies.order)
        view = View(result.sizes, result.strides, 0, result.dtype)
        return write(jnp.zeros(_natural(result), values.dtype), values, view)

    def place(
        self,
        array: jax.Array,
        values: jax.Array,
        sizes: Sequence[int],
        strides: Sequence[int],
        offset: int,
    ) -> jax.Array:
        view = View(tuple(sizes), tuple(strides), offset, dtypes.to_torch(array.dtype))
        return write(array, values, view)

    def plan(self, results: Sequence[TensorSpec]) -> Any:
        fresh = [
            NewTensor(
                result.sizes,
                result.strides,
                _natural(result) if result.elements is None else (result.elements,),
                result.dtype,
            )
            for result in results
        ]
        return fresh, results[0].device.index or 0 if results else 0

    def give(
        self, arrays: Sequence[jax.Array], plan: Any, shardings: Sequence[int] = ()
    ) -> list[torch.Tensor]:
        results, device = plan
        return _C.new_tensors(arrays, results, device, shardings)

    def donate(
        self, args: Sequence[Any], arrays: list[Any], indices: Sequence[int]
    ) -> AbstractContextManager[Any]:
        return _Donation(args, arrays, indices) if indices else nullcontext()

    def precision(self) -> str:
        return _PRECISIONS[_C.precision()]

    def draw(self, device: torch.device) -> tuple[int, int]:
        seed, offset = _C.draw(device.index or 0)
        return _signed(seed), _signed(offset)

    def placement(self, device: torch.device, shardings: Sequence[int] = ()) -> Placement:
        _C.start()
        return Placement.of(platform.device(device.index or 0), shardings)

    def compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        fingerprint: str | None,
        placement: Placement,
    ) -> jax.stages.Compiled:
        on = placement.devices
        _register_collectives()
        if fingerprint is None:
            return compiler.executable_of(name, lower(), on=on)
        return compiler.executable(name, lower, fingerprint=fingerprint, on=on)

    def program(self, executable: jax.stages.Compiled) -> GraphProgram:
        return _C.GraphProgram(executable)

    def takes_collectives(self) -> bool:
        # lowerings/collectives.py lowers collectives only for the `cpu` platform.
        return platform.name() == "cpu" and not processes.uses_xla("cpu")

    def uses_cpu_kernels(self) -> bool:
        return _C.uses_cpu_kernels()

    def runs_on_cpu(self, op: OpOverload, args: Sequence[Any]) -> bool:
        return cpu_kernels.runs_in_graphs(op, args)

    def cpu_graph(
        self,
        arguments: int,
        steps: list[Any],
        outputs: list[Any],
        written: list[int],
        device: torch.device,
    ) -> Any:
        return _C.CpuGraph(arguments, steps, outputs, written, device.index or 0)

    def needs(self, executable: jax.stages.Compiled) -> int:
        return compiler.needs(executable)

    def check_room(self, device: torch.device, needs: int) -> None:
        _C.check_room(device.index or 0, needs, _GRAPH)

    def explain(self, error: Exception) -> NoReturn:
        errors.explain(_GRAPH, error)

    def count(self, event: str) -> None:
        metrics.graph(event)

    def refuse(self, reason: str) -> None:
        metrics.exact(reason)


class _Donation:
    def __init__(self, args: Sequence[Any], arrays: list[Any], indices: Sequence[int]) -> None:
        self._arguments = (args, arrays, indices)

    def __enter__(self) -> _C.Donation:
        args, arrays, indices = self._arguments
        self._donation = _C.Donation(args, arrays, indices)
        try:
            for index in self._donation.refused:
                arrays[index] = arrays[index].copy()
                metrics.graph("copy")
        except BaseException as error:
            self._donation.fail(error)
            raise
        return self._donation

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self._donation.finish()
        else:
            self._donation.fail(error)


_ADAPTER = TpuAdapter()


def register() -> None:
    """Register the adapter with the `tpu` backend of torch.compile. Idempotent."""
    register_adapter("tpu", _ADAPTER)
    _hide_calls()


@cache
def _register_collectives() -> None:
    """Register the collectives' handler with XLA, which finds it by name."""
    jax.ffi.register_ffi_target(TARGET, _C.collective_handler(), platform="cpu")


@cache
def _hide_calls() -> None:
    """Hide Compiled.__call__ from Dynamo: an executable's first call runs this method in Python."""
    jax.stages.Compiled.__call__ = untraced(jax.stages.Compiled.__call__)


def _natural(result: TensorSpec) -> tuple[int, ...]:
    """Return the shape of a new tensor's array, flat if its elements overlap or leave gaps."""
    lies = natural(result.sizes, result.strides)
    if lies.strides == result.strides:
        return lies.shape
    steps = zip(result.sizes, result.strides, strict=True)
    return (1 + sum((size - 1) * step for size, step in steps),)


def _is_odd(tensor: torch.Tensor, array: jax.Array) -> bool:
    """Return whether a tensor has an offset or conj/neg bit, or differs in dtype from its array."""
    return (
        tensor.storage_offset() != 0
        or tensor.is_conj()
        or tensor.is_neg()
        or dtypes.to_torch(array.dtype) != tensor.dtype
    )


@lru_cache(256)
def _fitted(sharding: Any, view: View, elements: int) -> Callable[[jax.Array], jax.Array]:
    """Return a program that flattens a view and pads it to the given number of elements."""
    metrics.graph("pad_compile")

    def function(array: jax.Array) -> jax.Array:
        flat = read(array, view).reshape(-1)
        return jnp.pad(flat, (0, elements - flat.size))

    return jax.jit(function, out_shardings=sharding)


def _signed(word: int) -> int:
    """Reinterpret an unsigned 64-bit integer as signed, because C++ passes seeds as signed."""
    return word - 2**64 if word >= 2**63 else word
