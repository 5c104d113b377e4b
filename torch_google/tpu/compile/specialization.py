# SPDX-License-Identifier: Apache-2.0
"""A graph compiled for concrete sizes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.fx import GraphModule, Node

from torch_google.tpu import dtypes
from torch_google.tpu.compile.device_adapter import DeviceAdapter, TensorSpec, adapter_of
from torch_google.tpu.compile.evaluation import Evaluation
from torch_google.tpu.compile.fingerprint import fingerprint, is_ours
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.compile.options import Options
from torch_google.tpu.compile.symbols import Symbols
from torch_google.tpu.compile.writing_program import WritingProgram
from torch_google.tpu.lowerings.call_order import CallOrder, call_order
from torch_google.tpu.program import reordered
from torch_google.tpu.runtime import graph_origins, kernel_names
from torch_google.tpu.shardings import ONE_DEVICE, parse, result_numbers, sharding_of


@dataclass(frozen=True)
class _ArgumentResult:
    """A result that is one of the arguments."""

    argument: int


@dataclass(frozen=True)
class _NewResult:
    """A result that is a new tensor backed by one of the program's output arrays."""

    position: int


@dataclass(frozen=True)
class _ViewResult:
    """A result that is a view of a flat output array, which other results share."""

    position: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    conj: bool
    neg: bool

    def of(self, base: torch.Tensor) -> torch.Tensor:
        """Return the view of `base`, a flat tensor whose dtype may differ from the view's."""
        if base.dtype != self.dtype:
            usable = base.nbytes // self.dtype.itemsize * self.dtype.itemsize
            base = base[: usable // base.itemsize].view(self.dtype)
        view = base.as_strided(self.sizes, self.strides, self.offset)
        view = view.conj() if self.conj else view
        return torch._neg_view(view) if self.neg else view


class Specialization:
    """A graph compiled for concrete sizes. A call takes the graph's arguments and their arrays."""

    def __init__(
        self,
        signature: GraphSignature,
        args: Sequence[Any],
        arrays: Sequence[Any],
        shardings: Sequence[int],
        options: Options,
    ) -> None:
        self._signature = signature
        self._shardings = shardings or [ONE_DEVICE] * len(args)
        self._placement = signature.adapter().placement(
            signature.device, [*shardings, *_constraints(signature.graph)]
        )
        # The index of each output's sharding (see shardings.py). Empty if the program runs on one
        # device.
        self._chosen: list[int] = []
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
            if options.donate
            and signature.metas[index].device == signature.device
            # If the program runs on a mesh, an input on one device is first replicated, so its own
            # array cannot be donated.
            and (self._shardings[index] or not self._placement.is_sharded)
        ]
        # The program first returns the new values of mutated inputs, then these outputs. Each pair
        # consists of an output's metadata and the nodes whose values it contains.
        self._made: list[tuple[TensorSpec, list[Node]]] = []
        self._results = [self._result(output) for output in signature.outputs]
        positions = [r.position for r in self._results if isinstance(r, _NewResult | _ViewResult)]
        # Whether some results share an output array: views of it, or one tensor that is returned
        # several times, for example to the caller and to the backward graph. torch then notices if
        # the caller writes to it before the backward pass.
        self._shared = len(set(positions)) < len(positions) or any(
            isinstance(result, _ViewResult) for result in self._results
        )
        self._givers = self._plans()
        with _precision(options.precision), dtypes.defaulting_to(signature.default_dtype):
            executable = self._compile(arrays, options)
        self._program = WritingProgram(signature, executable, self._donated)
        # The compiled program contains the values it needs, so release the tensors.
        self._args.clear()

    def __call__(self, args: Sequence[Any], arrays: list[Any], adapter: DeviceAdapter) -> list[Any]:
        outputs = self._program(
            args, arrays, lambda: self._given(arrays, adapter), adapter, self._chosen
        )
        tensors = iter(self._give(outputs))
        return [
            args[result.argument]
            if isinstance(result, _ArgumentResult)
            else next(tensors)
            if isinstance(result, _NewResult | _ViewResult)
            else result
            for result in self._results
        ]

    def _given(self, arrays: list[Any], adapter: DeviceAdapter) -> list[Any]:
        if self._placement.is_sharded:
            self._replicate(arrays)
        inputs = list(arrays) if self._all else [arrays[index] for index in self._inputs]
        if self._signature.random:
            inputs += adapter.draw(self._signature.device)
        return inputs

    def _replicate(self, arrays: list[Any]) -> None:
        for index in self._inputs:
            if isinstance(arrays[index], jax.Array) and not self._shardings[index]:
                arrays[index] = jax.device_put(arrays[index], self._placement.sharding())

    def _result(self, output: Any) -> Any:
        """Return a description of where a result comes from, or the result if it is a constant."""
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
        """Return each device's adapter, its output arrays' positions, and the plan for `give`."""
        devices: dict[torch.device, list[int]] = {}
        for result in self._results:
            if isinstance(result, _NewResult | _ViewResult):
                metadata = self._made[result.position][0]
                positions = devices.setdefault(metadata.device, [])
                if result.position not in positions:
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
        """Create the new tensors on all devices, and return them in the order of the results."""
        by_position: dict[int, torch.Tensor] = {}
        for adapter, positions, plan in self._givers:
            outputs = [arrays[position] for position in positions]
            chosen = self._chosen[len(self._written) :]
            shardings = [chosen[position] for position in positions] if chosen else ()
            tensors = adapter.give(outputs, plan, shardings)
            if len(self._givers) == 1 and not self._shared:
                return tensors
            by_position.update(zip(positions, tensors, strict=True))
        return [
            by_position[result.position]
            if isinstance(result, _NewResult)
            else result.of(by_position[result.position])
            for result in self._results
            if isinstance(result, _NewResult | _ViewResult)
        ]

    def _compile(self, arrays: Sequence[Any], options: Options) -> Any:
        signature = self._signature
        adapter = signature.adapter()
        placement = self._placement
        specs = [
            arrays[index]
            if index in signature.numbers
            else jax.ShapeDtypeStruct(
                arrays[index].shape,
                arrays[index].dtype,
                sharding=placement.sharding(self._shardings[index]),
            )
            for index in self._inputs
        ]
        specs += [0, 0] if signature.random else []
        donated = tuple(self._inputs.index(index) for index in self._donated)

        def function(*inputs: Any) -> tuple[Any, ...]:
            return self._function(*inputs)

        def trace(function: Callable[..., tuple[Any, ...]], on: Any) -> jax.stages.Traced:
            function.__name__ = name
            jitted = jax.jit(function, donate_argnums=donated, out_shardings=on)
            return jitted.trace(*specs)

        def lower(on: Any) -> jax.stages.Lowered:
            traced = trace(function, on)
            on_cpu = placement.devices[0].platform == "cpu"
            quicker = reordered(traced.jaxpr) if on_cpu else None
            return (traced if quicker is None else trace(quicker, on)).lower()

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
        # Other libraries may change an operator without changing its name. A graph with such
        # operators has no fingerprint, so its cache key is the lowered text.
        own = fingerprint(signature.graph, details)
        key = own if is_ours(signature.graph) else None
        name = kernel_names.compiled_function(own)
        graph_origins.register(f"jit_{name}", signature.graph)

        def executable(on: Any, kind: str) -> jax.stages.Compiled:
            complete = None if key is None else key + kind
            return adapter.compile("torch.compile", lambda: lower(on), complete, placement)

        if not placement.is_sharded:
            return executable(placement.sharding(), "")
        # A mutated tensor keeps its sharding, if it has one. XLA chooses the other shardings.
        kept = [self._shardings[index] for index in self._written]
        on = [sharding_of(number) if number else None for number in kept]
        compiled = executable((*on, *[None] * len(self._made)), "")
        usable = result_numbers(compiled)
        self._chosen = [placement.mesh if number is None else number for number in usable]
        if None in usable:
            compiled = executable(tuple(map(placement.sharding, self._chosen)), " placed")
        return compiled

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
        order = CallOrder()
        with call_order(order):
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
        return (*written, *fresh, order.token) if signature.collective else (*written, *fresh)

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


def _constraints(graph: GraphModule) -> list[int]:
    """Return the index in shardings.py of each sharding that a graph passes to `shard`."""
    return [
        parse(node.args[1])
        for module in graph.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function" and str(node.target) == "torch_google.shard.default"
    ]


def _precision(name: str | None) -> AbstractContextManager[Any]:
    return nullcontext() if name is None else jax.default_matmul_precision(name)
