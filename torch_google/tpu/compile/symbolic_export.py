# SPDX-License-Identifier: Apache-2.0
"""Converts an exported program with dynamic dimensions to JAX with symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import sympy
import torch
from jax.extend.mlir import ir
from jax.interpreters import mlir
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes
from torch_google.tpu.buckets.sizes import PaddingRefusal, expr_of, number
from torch_google.tpu.program import constant
from torch_google.tpu.program.decompositions import decompositions
from torch_google.tpu.program.interpreter import NUMBERS, run
from torch_google.tpu.program.lowering_lookup import lowering_of


def stablehlo(program: ExportedProgram, platform: str | None = None) -> str:
    """Return the StableHLO text of `exported(program, platform)`, without source locations."""
    with mlir.make_ir_context():
        module = ir.Module.parse(str(exported(program, platform).mlir_module()))
        return str(module.operation.get_asm(enable_debug_info=False))


def exported(program: ExportedProgram, platform: str | None = None) -> jax.export.Exported:
    """Lower an exported program for `platform`, or for this process's platform if that is None.

    The inputs of the lowered program are the parameters, the buffers and the tensor arguments. If
    the program draws random numbers, the last input is a JAX key.

    Raises NotImplementedError if an operator has no lowering or if its lowering needs concrete
    sizes, and RuntimeError if the platform lacks an input's dtype.
    """
    traced = _SymbolicProgram(program.run_decompositions(dict(decompositions())))
    if platform is not None:
        for meta in traced.metas:
            dtypes.check(meta.dtype, platform)
    platforms = None if platform is None else (platform,)
    with jax.enable_x64(True):
        specs: list[Any] = [
            jax.ShapeDtypeStruct(traced.shape(meta), dtypes.to_jax(meta.dtype))
            for meta in traced.metas
        ]
        if traced.random:
            specs.append(jax.eval_shape(lambda: jax.random.key(0)))
        try:
            jitted = jax.jit(traced.function, keep_unused=True)
            return jax.export.export(jitted, platforms=platforms)(*specs)
        except (jax.core.InconclusiveDimensionOperation, jax.errors.JAXTypeError, TypeError) as e:
            raise NotImplementedError(
                f"tpu: export_stablehlo: {traced.operator} has no form for symbolic sizes "
                f"({str(e).splitlines()[0]}). Export the program without dynamic_shapes, once for "
                "each size"
            ) from e


class _SymbolicProgram:
    """An exported program as a JAX function. `at` is the operator that is being traced."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._nodes = list(program.graph.nodes)
        inputs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        self._given: list[Node] = []
        self._constants: dict[Node, torch.Tensor] = {}
        for node in self._nodes:
            if node.op != "placeholder" or not isinstance(node.meta["val"], torch.Tensor):
                continue
            if inputs[node.name].kind is InputKind.CONSTANT_TENSOR:
                self._constants[node] = program.constants[str(inputs[node.name].target)]
            else:
                self._given.append(node)
        self.metas = [node.meta["val"] for node in self._given]
        self.random = any(
            (lowering := lowering_of(node.target)) is not None and lowering.random
            for node in self._nodes
            if isinstance(node.target, OpOverload)
        )
        self.operator = "an input"
        self._sizes = _dimensions(program)

    def shape(self, meta: torch.Tensor) -> tuple[Any, ...]:
        return tuple(self._number(expr_of(size)) for size in meta.shape)

    def function(self, *inputs: Any) -> list[Any]:
        key = inputs[-1] if self.random else None
        values: dict[Node, Any] = dict(zip(self._given, inputs, strict=False))
        values |= {node: constant(tensor) for node, tensor in self._constants.items()}
        for position, node in enumerate(self._nodes):
            if node.op == "call_function":
                self.operator = str(node.target)
                values[node] = self._call(node, position, values, key)
        is_output = [
            spec.kind is OutputKind.USER_OUTPUT
            for spec in self._program.graph_signature.output_specs
        ]
        results = map_arg(self._nodes[-1].args[0], lambda node: values[node])
        return [one for one, selected in zip(results, is_output, strict=True) if selected]

    def _call(self, node: Node, position: int, values: Mapping[Node, Any], key: Any) -> Any:
        meta = node.meta.get("val")
        target: Any = node.target
        if isinstance(meta, torch.SymInt):
            return self._number(expr_of(meta))
        args = map_arg(node.args, lambda n: self._value_of(n, values))
        kwargs = map_arg(dict(node.kwargs), lambda n: self._value_of(n, values))
        if not isinstance(target, OpOverload):
            return NUMBERS.get(target, target)(*args, **kwargs)
        if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(meta)):
            return None  # an assertion has no result, so there is nothing to compute
        if target in _COUNTS:
            return self._as(_count(args, self.shape(meta)[0]), meta)
        lowering = lowering_of(target)
        if lowering is None or lowering.on_host(args, kwargs):
            raise NotImplementedError(
                f"tpu: export_stablehlo: no lowering for {target.name()} with symbolic sizes. "
                "Write one with torch_google.tpu.lowering in your program, or export fixed sizes"
            )
        fresh = jax.random.fold_in(key, position) if lowering.random else None
        results = run(lowering, target, args, kwargs, _ANY, fresh)
        if isinstance(meta, list | tuple):
            return [self._as(one, like) for one, like in zip(results, meta, strict=True)]
        return self._as(results, meta)

    def _value_of(self, node: Node, values: Mapping[Node, Any]) -> Any:
        meta = node.meta.get("val")
        return self._number(expr_of(meta)) if isinstance(meta, torch.SymInt) else values[node]

    def _as(self, result: Any, meta: Any) -> Any:
        if not isinstance(meta, torch.Tensor) or result is None:
            return None
        array = jax.lax.convert_element_type(jax.numpy.asarray(result), dtypes.to_jax(meta.dtype))
        # torch returns an empty tensor for a result that it does not need, such as some
        # statistics, but a lowering may compute the result. So do not compare empty shapes.
        if 0 not in meta.shape and array.shape != self.shape(meta):
            raise ValueError(
                f"tpu: export_stablehlo: {self.operator} gave {array.shape}, torch has "
                f"{self.shape(meta)}. Fix its lowering in torch_google/tpu/lowerings"
            )
        return array

    def _number(self, expr: Any) -> Any:
        try:
            return number(expr, self._sizes)
        except PaddingRefusal as refusal:
            raise NotImplementedError(
                f"tpu: export_stablehlo: {self.operator}: {refusal}. Leave it out of the program"
            ) from refusal


def _count(args: Sequence[Any], length: Any) -> jax.Array:
    """Lower arange to a result of the given length. The usual lowering needs concrete bounds."""
    start, step = (0, 1) if len(args) == 1 else (args[0], args[2] if len(args) > 2 else 1)
    is_integer = isinstance(start, int) and isinstance(step, int)
    places = jax.numpy.arange(length, dtype=jax.numpy.int64 if is_integer else jax.numpy.float64)
    return start + places * step


def _dimensions(program: ExportedProgram) -> dict[sympy.Symbol, Any]:
    """Return a symbolic JAX dimension for each symbol, with the symbol's bounds."""
    ranges = program.range_constraints
    symbols = sorted(_symbols(program), key=str)
    bounds = []
    for symbol in symbols:
        if symbol in ranges:
            lower, upper = ranges[symbol].lower, ranges[symbol].upper
            bounds += [f"{symbol} >= {int(lower)}"] if lower.is_Integer else []
            bounds += [f"{symbol} <= {int(upper)}"] if upper.is_Integer else []
    dimensions = jax.export.symbolic_shape(", ".join(map(str, symbols)), constraints=bounds)
    return dict(zip(symbols, dimensions, strict=True))


def _symbols(program: ExportedProgram) -> set[sympy.Symbol]:
    placeholders: Sequence[Any] = [n for n in program.graph.nodes if n.op == "placeholder"]
    symbols: set[sympy.Symbol] = set()
    for node in placeholders:
        meta = node.meta["val"]
        if isinstance(meta, torch.SymInt):
            raise NotImplementedError(
                f"tpu: export_stablehlo: the argument {node.name} is a number that changes. Pass a "
                "tensor of that size, or export the program for each number"
            )
        if isinstance(meta, torch.Tensor):
            for size in meta.shape:
                symbols |= expr_of(size).free_symbols
    return symbols


_COUNTS = frozenset(
    {
        torch.ops.aten.arange.default,
        torch.ops.aten.arange.start,
        torch.ops.aten.arange.start_step,
    }
)

# A marker that tells `run` not to check or cast the lowering's results, because this module
# compares the shapes itself.
_ANY = object()
