# SPDX-License-Identifier: Apache-2.0
"""A graph compiled for one bucket of each symbolic size.

An input with symbolic sizes is passed as a flat array whose length is the product of the padded
sizes. The tensor's elements come first, in order. Results are returned in the same form, and the
tensor backed by such an array has the sizes and strides that it would have without padding. The
results of a forward graph can therefore be passed to its backward graph without slicing or padding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.fx import Node

from torch_google.tpu import dtypes
from torch_google.tpu.buckets import (
    PaddedArray,
    PaddingRefusal,
    SizeScope,
    compacted,
    number,
    unpacked,
)
from torch_google.tpu.buckets.rules import plain
from torch_google.tpu.buckets.sizes import expr_of, factored
from torch_google.tpu.compile.device_adapter import DeviceAdapter, TensorSpec
from torch_google.tpu.compile.fingerprint import fingerprint, is_ours
from torch_google.tpu.compile.graph_signature import GraphSignature
from torch_google.tpu.compile.options import Options
from torch_google.tpu.compile.padded_evaluation import evaluate
from torch_google.tpu.compile.symbols import is_symbolic
from torch_google.tpu.compile.writing_program import WritingProgram
from torch_google.tpu.lowerings.call_order import CallOrder, call_order


@dataclass(frozen=True)
class _Result:
    """A new tensor that the program returns. Its sizes and strides are sympy expressions.

    `order` lists its dimensions from the outermost to the innermost in memory. `elements` is the
    length of its padded array, or None if its layout is the same in every call.
    """

    position: int
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    order: tuple[int, ...]
    elements: int | None
    dtype: torch.dtype
    device: torch.device


class BucketedProgram:
    """A program compiled for one combination of buckets."""

    def __init__(
        self,
        signature: GraphSignature,
        args: Sequence[Any],
        arrays: Sequence[Any],
        scope: SizeScope,
        symbols: Sequence[Any],
        loose: int,
        options: Options,
    ) -> None:
        self._signature = signature
        self._symbols = list(symbols)
        self.scope = scope
        self._layouts = {
            index: _adapter(signature, index).layout(args[index]) for index in signature.unsized
        }
        # The padded length of each input with symbolic sizes.
        self._lengths = {
            index: self._length(signature.metas[index].shape) for index in signature.sized
        }
        self._floats = [
            index for index, meta in enumerate(signature.metas) if isinstance(meta, torch.SymFloat)
        ]
        self._inputs = [*signature.unsized, *signature.sized]
        self._written = list(signature.written)
        self._donated = [
            index
            for index in self._written
            if options.donate and signature.metas[index].device == signature.device
        ]
        # The outputs that are new tensors, as (position, node) pairs.
        self._made = [
            (position, node)
            for position, node in enumerate(signature.outputs)
            if isinstance(node, Node)
            and isinstance(node.meta.get("val"), torch.Tensor)
            and signature.argument(node) is None
        ]
        self._neighbors = _neighbors(signature)
        self._check()
        # For each new tensor, its node and its dimensions in memory order, outermost first.
        self._orders = [
            (node, self._order(node, position >= loose)) for position, node in self._made
        ]
        self._results = [self._result(position, node) for position, node in self._made]
        # For each new tensor, the index of the first new tensor with the same values. Both are
        # returned as one tensor, as in a Specialization.
        self._firsts = [self._orders.index(order) for order in self._orders]
        self._returned = list(dict.fromkeys(self._orders))
        self._picked = [self._returned.index(order) for order in self._orders]
        assert options.precision is not None
        precision = jax.default_matmul_precision(options.precision)
        with precision, dtypes.defaulting_to(signature.default_dtype):
            executable = self._compile(arrays, options)
        self._program = WritingProgram(signature, executable, self._donated)

    def __call__(
        self,
        args: Sequence[Any],
        arrays: list[Any],
        adapter: DeviceAdapter,
        sizes: Sequence[int],
        plan: Any,
        others: Sequence[Any],
    ) -> list[Any]:
        signature = self._signature
        for index, length in self._lengths.items():
            arrays[index] = _adapter(signature, index).fit(args[index], arrays[index], length)
        outputs = self._program(
            args, arrays, lambda: self._given(args, arrays, adapter, sizes), adapter
        )
        fresh = [outputs[position] for position in self._picked]
        tensors = adapter.give(fresh, plan) if fresh else []
        results = list(others)
        for (position, _), first in zip(self._made, self._firsts, strict=True):
            results[position] = tensors[first]
        for position, output in enumerate(signature.outputs):
            own = signature.argument(output) if isinstance(output, Node) else None
            if own is not None:
                results[position] = args[own]
        return results

    def _given(
        self,
        args: Sequence[Any],
        arrays: list[Any],
        adapter: DeviceAdapter,
        sizes: Sequence[int],
    ) -> list[Any]:
        signature = self._signature
        inputs = [arrays[index] for index in self._inputs]
        inputs += [float(args[index]) for index in self._floats]
        inputs += [int(size) for size in sizes]
        if signature.random:
            inputs += adapter.draw(signature.device)
        return inputs

    def tensors(self, values: Mapping[Any, int], loose: int) -> list[TensorSpec]:
        """Return the metadata of the new tensors. Raises PaddingRefusal if strides leave gaps."""
        known: dict[Any, int] = {}

        def value(expr: Any) -> int:
            if expr not in known:
                known[expr] = int(number(expr, values))
            return known[expr]

        results = []
        for result in self._results:
            sizes = tuple(value(expr) for expr in result.sizes)
            if result.elements is not None and result.position >= loose:
                strides = _contiguous(sizes)
            else:
                strides = tuple(value(expr) for expr in result.strides)
                if result.elements is not None and not _lie(sizes, strides, result.order):
                    raise PaddingRefusal("a result whose strides leave gaps")
            results.append(TensorSpec(sizes, strides, result.dtype, result.device, result.elements))
        return results

    def numbers_and_nones(self, values: Mapping[Any, int]) -> list[Any]:
        """Return the results that are not tensors, with None in place of each tensor."""
        results: list[Any] = []
        for output in self._signature.outputs:
            meta = output.meta.get("val") if isinstance(output, Node) else output
            if isinstance(meta, torch.SymInt):
                meta = int(number(expr_of(meta), values))
            elif isinstance(meta, torch.SymFloat | torch.SymBool):
                raise PaddingRefusal("a float or bool result that depends on a size")
            results.append(None if isinstance(meta, torch.Tensor) else meta)
        return results

    def _check(self) -> None:
        signature = self._signature
        if any(is_symbolic(signature.metas[index]) for index in self._written):
            raise PaddingRefusal("a write to an argument with symbolic sizes")
        for _, node in self._made:
            if node.meta["val"].device != signature.device:
                raise PaddingRefusal("a result on another device")
            if signature.family(node):
                raise PaddingRefusal("results that share their storage")

    def _result(self, position: int, node: Node) -> _Result:
        meta = node.meta["val"]
        return _Result(
            position,
            tuple(expr_of(size) for size in meta.shape),
            tuple(expr_of(step) for step in meta.stride()),
            self._order(node, False),
            self._length(meta.shape) if is_symbolic(meta) else None,
            meta.dtype,
            meta.device,
        )

    def _length(self, shape: Sequence[Any]) -> int:
        sizes = [int(number(expr_of(size), self.scope.buckets)) for size in shape]
        return math.prod(sizes, start=1)

    def _order(self, node: Node, loose: bool) -> tuple[int, ...]:
        """Return a result's dimensions in memory order, outermost first."""
        meta = node.meta["val"]
        if loose or not is_symbolic(meta):
            return tuple(range(meta.dim()))
        steps = [int(number(expr_of(step), self.scope.buckets)) for step in meta.stride()]
        return tuple(sorted(range(meta.dim()), key=lambda d: (-steps[d], d)))

    def _compile(self, arrays: Sequence[Any], options: Options) -> Any:
        signature = self._signature
        adapter = signature.adapter()
        placement = adapter.placement(signature.device)
        sharding = placement.sharding()
        shapes = {index: arrays[index].shape for index in signature.unsized}
        shapes |= {index: (length,) for index, length in self._lengths.items()}
        specs: list[Any] = [
            jax.ShapeDtypeStruct(
                shapes[index],
                arrays[index].dtype
                if index in self._layouts
                else dtypes.to_jax(signature.metas[index].dtype),
                sharding=sharding,
            )
            for index in self._inputs
        ]
        specs += [0.0] * len(self._floats) + [0] * len(self._symbols)
        specs += [0, 0] if signature.random else []
        donated = tuple(self._inputs.index(index) for index in self._donated)
        jitted = jax.jit(self._function, donate_argnums=donated, out_shardings=sharding)
        # Trace even if the executable is in the cache, because only tracing can raise
        # PaddingRefusal.
        traced = jitted.trace(*specs)
        layouts = list(self._layouts.items())
        orders = [order for _, order in self._returned]
        details = (
            "buckets",
            specs,
            # The graph's code contains no shapes, and `specs` describes inputs with symbolic
            # sizes as flat arrays, so the fingerprint needs the shapes as well.
            [_described(meta) for meta in signature.metas],
            [_described(node.meta["val"]) for _, node in self._made],
            [str(symbol) for symbol in self._symbols],
            layouts,
            list(self.scope.buckets.items()),
            self.scope.fixed,
            orders,
            donated,
            options,
            signature.default_dtype,
        )
        adapter.count("compile")
        key = fingerprint(signature.graph, details) if is_ours(signature.graph) else None
        return adapter.compile("torch.compile", traced.lower, key, placement)

    def _function(self, *inputs: Any) -> tuple[Any, ...]:
        signature = self._signature
        arrays = dict(zip(self._inputs, inputs, strict=False))
        start = len(self._inputs)
        floats = dict(zip(self._floats, inputs[start:], strict=False))
        start += len(self._floats)
        symbols = dict(zip(self._symbols, inputs[start:], strict=False))
        key = (
            jax.random.fold_in(jax.random.key(inputs[-2]), inputs[-1]) if signature.random else None
        )
        scope = self.scope.within(symbols)
        values: list[Any] = []
        for index, meta in enumerate(signature.metas):
            if index in self._lengths:
                values.append(unpacked(scope, arrays[index], self._dims(scope, meta)))
            elif index in arrays:
                array = _adapter(signature, index).read(arrays[index], self._layouts[index])
                values.append(PaddedArray(array, plain(array.shape)))
            elif isinstance(meta, torch.SymInt):
                values.append(scope.value(expr_of(meta)))
            else:
                values.append(floats.get(index, meta))
        order = CallOrder()
        with call_order(order):
            results = evaluate(signature.graph, values, scope, key)
        written = [
            _adapter(signature, index).write(
                arrays[index], results[node].array, self._layouts[index]
            )
            for index, node in signature.written.items()
        ]
        return (
            *written,
            *(self._packed(scope, results[n], n, axes) for n, axes in self._returned),
            *((order.token,) if signature.collective else ()),
        )

    def _dims(self, scope: SizeScope, meta: torch.Tensor) -> list[Any]:
        """Return an input's dimensions. If a size is a product, each factor gets an `Extent`."""
        return [factored(scope, size, self._neighbors) for size in meta.shape]

    def _packed(
        self, scope: SizeScope, x: PaddedArray, node: Node, order: tuple[int, ...]
    ) -> jax.Array:
        meta = node.meta["val"]
        if not is_symbolic(meta):
            sizes = tuple(meta.shape)
            result = TensorSpec(sizes, tuple(meta.stride()), meta.dtype, meta.device)
            return self._signature.adapter().pack(x.array, result)
        lies = PaddedArray(x.array.transpose(order), tuple(x.dims[axis] for axis in order))
        flat = compacted(scope, lies)
        length = self._length(meta.shape)
        return jnp.pad(flat, (0, max(length - flat.size, 0)))[:length]


def _adapter(signature: GraphSignature, index: int) -> DeviceAdapter:
    adapter = signature.adapters[index]
    assert adapter is not None
    return adapter


def _lie(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    """Return whether sizes and strides describe a dense tensor with this dimension order."""
    step = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != step:
            return False
        step *= sizes[axis]
    return True


def _contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _neighbors(signature: GraphSignature) -> list[tuple[Any, ...]]:
    """Return the distinct shapes in a graph that have more than one symbolic dimension."""
    shapes: dict[tuple[Any, ...], None] = {}
    for node in signature.graph.graph.nodes:
        for leaf in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(leaf, torch.Tensor):
                sizes = tuple(expr_of(size) for size in leaf.shape)
                if sum(not size.is_Integer for size in sizes) > 1:
                    shapes[sizes] = None
    return list(shapes)


def _described(meta: Any) -> Any:
    """Return a description of a fake value. The text is the same in every process."""
    if isinstance(meta, torch.SymInt):
        return "SymInt", str(expr_of(meta))
    if not isinstance(meta, torch.Tensor):
        return "SymFloat" if isinstance(meta, torch.SymFloat) else repr(meta)
    shape, strides = (
        [str(expr_of(size)) for size in sizes] for sizes in (meta.shape, meta.stride())
    )
    return shape, strides, str(meta.dtype), str(meta.device)
