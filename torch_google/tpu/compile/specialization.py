# SPDX-License-Identifier: Apache-2.0
"""A graph compiled for known sizes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from sys import getrefcount
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.fx import Node

from torch_google.tpu import dtypes
from torch_google.tpu.compile.device_adapter import DeviceAdapter, TensorSpec, adapter_of
from torch_google.tpu.compile.evaluation import Evaluation
from torch_google.tpu.compile.fingerprint import fingerprint, is_ours
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.compile.options import Options
from torch_google.tpu.compile.symbols import Symbols
from torch_google.tpu.program import reordered

# References to a donatable array: its storage's, the list of arrays', and getrefcount's.
OWNERS = 3


@dataclass(frozen=True)
class _ArgumentResult:
    """A result that is one of the arguments."""

    place: int


@dataclass(frozen=True)
class _NewResult:
    """A result that is a new tensor over one of the program's output arrays."""

    position: int


@dataclass(frozen=True)
class _ViewResult:
    """A result that shares storage with other results: a view of a flat output array."""

    position: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    conj: bool
    neg: bool

    def of(self, base: torch.Tensor) -> torch.Tensor:
        """Return the view of a flat tensor, which may have another dtype."""
        if base.dtype != self.dtype:
            usable = base.nbytes // self.dtype.itemsize * self.dtype.itemsize
            base = base[: usable // base.itemsize].view(self.dtype)
        view = base.as_strided(self.sizes, self.strides, self.offset)
        view = view.conj() if self.conj else view
        return torch._neg_view(view) if self.neg else view


class Specialization:
    """A compiled program, called with a graph's arguments and their arrays."""

    def __init__(
        self,
        signature: GraphSignature,
        args: Sequence[Any],
        arrays: Sequence[Any],
        options: Options,
    ) -> None:
        self._signature = signature
        self._args = list(args)
        self._symbols = Symbols(signature.metas, args)
        self._adapters = signature.adapters
        self._layouts: list[Hashable] = [
            None if adapter is None else adapter.layout(value)
            for adapter, value in zip(self._adapters, args, strict=True)
        ]
        self._inputs = [
            index
            for index, adapter in enumerate(self._adapters)
            if adapter is not None or index in signature.numbers
        ]
        self._all = len(self._inputs) == len(args)
        self._written = list(signature.written)
        self._donated = [
            index
            for index in self._written
            if options.donate and signature.metas[index].device == signature.device
        ]
        # The program's outputs after the written values, each with the nodes it is built from.
        self._made: list[tuple[TensorSpec, list[Node]]] = []
        self._results = [self._result(output) for output in signature.outputs]
        self._shared = any(isinstance(result, _ViewResult) for result in self._results)
        self._givers = self._plans()
        with _precision(options.precision), dtypes.defaulting_to(signature.default_dtype):
            self._run = self._compile(arrays, options)
        self._needs = signature.adapter().needs(self._run)
        # Only the baked values are still needed, and tensors must not be kept alive.
        self._args.clear()

    def __call__(self, args: Sequence[Any], arrays: list[Any], adapter: DeviceAdapter) -> list[Any]:
        # Check before random state is consumed or arguments are donated. A failed program loses
        # both.
        adapter.check_room(self._signature.device, self._needs)
        for index in self._donated:
            if getrefcount(arrays[index]) > OWNERS or adapter.is_shared(args[index]):
                arrays[index] = arrays[index].copy()
                adapter.count("copy")
        inputs = arrays if self._all else [arrays[index] for index in self._inputs]
        if self._signature.random:
            inputs = [*inputs, *adapter.draw(self._signature.device)]
        try:
            outputs = self._run(*inputs)
        except RuntimeError as error:  # the base class of JAX's errors
            adapter.explain(error)
        adapter.count("call")
        count = len(self._written)
        for index, array in zip(self._written, outputs[:count], strict=True):
            own = self._adapters[index]
            assert own is not None
            own.store(args[index], array)
        tensors = iter(self._give(outputs[count:]))
        return [
            args[result.place]
            if isinstance(result, _ArgumentResult)
            else next(tensors)
            if isinstance(result, _NewResult | _ViewResult)
            else result
            for result in self._results
        ]

    def _result(self, output: Any) -> Any:
        """Return a result's source; a value that is not a node is itself the result."""
        if not isinstance(output, Node):
            return output
        meta = output.meta.get("val")
        index = self._signature.argument(output)
        if index is not None:
            return _ArgumentResult(index)
        if not isinstance(meta, torch.Tensor):
            return self._symbols.concrete(meta)
        sizes = self._symbols.sizes(meta.shape)
        strides = self._symbols.sizes(meta.stride())
        family = self._signature.family(output)
        if not family:
            result = TensorSpec(sizes, strides, meta.dtype, meta.device)
            return _NewResult(self._position(result, [output]))
        own = family[0].meta["val"]
        (offset, elements) = self._symbols.sizes(
            (meta.storage_offset(), own.untyped_storage().nbytes() // own.element_size())
        )
        position = self._position(TensorSpec((elements,), (1,), own.dtype, own.device), family)
        return _ViewResult(
            position, sizes, strides, offset, meta.dtype, meta.is_conj(), meta.is_neg()
        )

    def _position(self, result: TensorSpec, nodes: list[Node]) -> int:
        if (result, nodes) not in self._made:
            self._made.append((result, nodes))
        return self._made.index((result, nodes))

    def _plans(self) -> list[tuple[DeviceAdapter, list[int], Any]]:
        """Return, per device, the adapter, the indices of its output arrays, and its plan."""
        devices: dict[torch.device, list[int]] = {}
        for result in self._results:
            if isinstance(result, _NewResult | _ViewResult):
                metadata = self._made[result.position][0]
                positions = devices.setdefault(metadata.device, [])
                if isinstance(result, _NewResult) or result.position not in positions:
                    positions.append(result.position)
        return [
            (
                adapter_of(device),
                positions,
                adapter_of(device).plan([self._made[position][0] for position in positions]),
            )
            for device, positions in devices.items()
        ]

    def _give(self, arrays: Sequence[jax.Array]) -> list[Any]:
        """Return the new tensors in result order, whatever their devices."""
        by_position: dict[int, list[torch.Tensor]] = {}
        for adapter, positions, plan in self._givers:
            tensors = adapter.give([arrays[position] for position in positions], plan)
            if len(self._givers) == 1 and not self._shared:
                return tensors
            for position, tensor in zip(positions, tensors, strict=True):
                by_position.setdefault(position, []).append(tensor)
        return [
            by_position[result.position].pop(0)
            if isinstance(result, _NewResult)
            else result.of(by_position[result.position][0])
            for result in self._results
            if isinstance(result, _NewResult | _ViewResult)
        ]

    def _compile(self, arrays: Sequence[Any], options: Options) -> Any:
        signature = self._signature
        adapter = signature.adapter()
        sharding = adapter.sharding(signature.device)
        specs = [
            arrays[index]
            if index in signature.numbers
            else jax.ShapeDtypeStruct(arrays[index].shape, arrays[index].dtype, sharding=sharding)
            for index in self._inputs
        ]
        specs += [0, 0] if signature.random else []
        donated = tuple(self._inputs.index(index) for index in self._donated)

        def trace(function: Callable[..., tuple[Any, ...]]) -> jax.stages.Traced:
            jitted = jax.jit(function, donate_argnums=donated, out_shardings=sharding)
            return jitted.trace(*specs)

        def lower() -> jax.stages.Lowered:
            traced = trace(self._function)
            on_cpu = all(device.platform == "cpu" for device in sharding.device_set)
            quicker = reordered(traced.jaxpr) if on_cpu else None
            return (traced if quicker is None else trace(quicker)).lower()

        baked = [value for index, value in enumerate(self._args) if index not in self._inputs]
        details = (
            specs,
            self._layouts,
            baked,
            self._results,
            self._made,
            donated,
            options,
            signature.default_dtype,
        )
        adapter.count("compile")
        # Other libraries' operators may change under the same name, so the lowered text is their
        # key.
        key = fingerprint(signature.graph, details) if is_ours(signature.graph) else None
        return adapter.compile("torch.compile", lower, key, signature.device)

    def _function(self, *inputs: Any) -> tuple[Any, ...]:
        signature = self._signature
        key = None
        if signature.random:
            key = jax.random.fold_in(jax.random.key(inputs[-2]), inputs[-1])
        values = list(self._args)
        for index, array in zip(self._inputs, inputs, strict=False):
            adapter = self._adapters[index]
            values[index] = array if adapter is None else adapter.read(array, self._layouts[index])
        evaluation = Evaluation(signature.graph, self._symbols, key)
        evaluation.run(values)
        written = []
        for index, node in signature.written.items():
            adapter = self._adapters[index]
            assert adapter is not None
            written.append(
                adapter.write(
                    inputs[self._inputs.index(index)], evaluation.values[node], self._layouts[index]
                )
            )
        fresh = [self._packed(evaluation, result, nodes) for result, nodes in self._made]
        return (*written, *fresh)

    def _packed(self, evaluation: Evaluation, result: TensorSpec, nodes: list[Node]) -> jax.Array:
        adapter = adapter_of(result.device)
        if not self._signature.family(nodes[0]):
            return adapter.pack(evaluation.values[nodes[0]], result)
        base = jnp.zeros(result.sizes, dtypes.to_jax(result.dtype))
        for node in nodes:
            meta = self._symbols.concrete(node.meta["val"])
            offset = self._symbols.sizes((node.meta["val"].storage_offset(),))[0]
            base = adapter.place(
                base, evaluation.values[node], tuple(meta.shape), meta.stride(), offset
            )
        return base


def _precision(name: str | None) -> AbstractContextManager[Any]:
    return nullcontext() if name is None else jax.default_matmul_precision(name)
