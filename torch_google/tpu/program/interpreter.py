# SPDX-License-Identifier: Apache-2.0
"""Runs a graph of torch operators in JAX, using each operator's lowering."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes, lowerings
from torch_google.tpu.lowerings import Lowering
from torch_google.tpu.program.graph_tracing import kinds_of, no_lowering
from torch_google.tpu.program.host_arrays import constant
from torch_google.tpu.program.lowering_lookup import lowering_of
from torch_google.tpu.program.strided_nodes import STRIDED, evaluate

# Arguments that select a layout or a device. They do not affect the values of the results.
PLACEMENT = frozenset(
    {"device", "layout", "pin_memory", "non_blocking", "memory_format", "generator"}
)


@dataclass(frozen=True)
class LoweredProgram:
    """A function of JAX arrays. The caller must jit it.

    It takes one array per input (a scalar for a Number). If `random` is set, it also takes a JAX
    random key, which must be new for each execution. `metas` holds the dtype and shape of each
    result according to torch.
    """

    function: Callable[[Sequence[Any], Any], list[Any]]
    metas: tuple[torch.Tensor | None, ...]
    random: bool = False
    host_shape: bool = False

    def __call__(self, arrays: Sequence[Any], key: Any = None) -> list[Any]:
        return self.function(arrays, key)


def lower_graph(graph: GraphModule, *, part_of: str = "") -> LoweredProgram:
    """Return the program for a graph of pure operators, each of which has a lowering.

    Raises a NotImplementedError naming `part_of` and every operator without a lowering, if any.
    """
    nodes = list(graph.graph.nodes)
    _check(nodes, part_of)
    lowerings = {
        node: lowering
        for node in nodes
        if isinstance(node.target, OpOverload) and (lowering := lowering_of(node.target))
    }
    output = nodes[-1]
    results = pytree.tree_leaves(output.args[0], is_leaf=lambda leaf: isinstance(leaf, Node))
    metas = tuple(_meta(result) for result in results)
    random = any(lowering.random for lowering in lowerings.values())

    def function(arrays: Sequence[Any], key: Any) -> list[Any]:
        values: dict[Node, Any] = {}
        inputs = iter(arrays)
        for position, node in enumerate(nodes[:-1]):
            if node.op == "placeholder":
                values[node] = next(inputs)
            elif node.op == "get_attr":
                values[node] = constant(_attribute(graph, str(node.target)))
            else:
                args = map_arg(node.args, values.__getitem__)
                kwargs = map_arg(node.kwargs, values.__getitem__)
                if node.target in STRIDED:
                    values[node] = evaluate(node, values)
                elif node in lowerings:
                    fresh = jax.random.fold_in(key, position) if lowerings[node].random else None
                    values[node] = run(
                        lowerings[node], node.target, args, kwargs, node.meta.get("val"), fresh
                    )
                else:
                    values[node] = computed(node.target, args, kwargs)
        return [values[r] if isinstance(r, Node) else r for r in results]

    on_host = any(
        lowering.on_host(map_arg(node.args, _meta), map_arg(node.kwargs, _meta))
        for node, lowering in lowerings.items()
    )
    return LoweredProgram(function, metas, random, on_host)


def run(
    lowering: Lowering,
    op: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    meta: Any,
    key: Any,
) -> Any:
    """Call a lowering with the arguments it accepts, and cast its results to torch's dtypes."""
    positional, named = _bind(op, args, kwargs, _parameters(lowering.function))
    if lowering.random:
        named["key"] = key
    return _conform(
        op, lowering.function(*positional, **named), meta, not lowering.on_host(args, kwargs)
    )


def _check(nodes: Sequence[Node], part_of: str) -> None:
    absent = {}
    for node in nodes:
        if node.op == "call_function" and isinstance(node.target, OpOverload):
            if lowering_of(node.target) is None:
                absent[lowerings.name_of(node.target)] = _dtypes_of_inputs(node)
        elif node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            absent[node.target.name()] = _dtypes_of_inputs(node)
    if absent:
        raise NotImplementedError(no_lowering(absent, part_of))


def _dtypes_of_inputs(node: Node) -> str:
    return kinds_of([_meta(each) for each in node.all_input_nodes])


def _meta(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def _attribute(graph: GraphModule, target: str) -> Any:
    return operator.attrgetter(target)(graph)


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of the parameters that a lowering accepts by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return frozenset(parameter.name for parameter in parameters if parameter.kind in kinds)


def _bind(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], parameters: frozenset[str]
) -> tuple[list[Any], dict[str, Any]]:
    """Match a graph node's arguments with a lowering's parameters.

    Graphs omit arguments that equal the schema's default. They are filled in here, because a
    lowering may lack a default, or have a different one.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    skipped = False
    for i, argument in enumerate(op._schema.arguments):
        if argument.name in PLACEMENT:
            skipped = True
        elif i < len(args):
            if skipped:
                named[argument.name] = args[i]
            else:
                positional.append(args[i])
        elif argument.name in kwargs:
            named[argument.name] = kwargs[argument.name]
        elif _has_usable_default(argument) and argument.name in parameters:
            named[argument.name] = argument.default_value
    return positional, named


def _has_usable_default(argument: Any) -> bool:
    """Return whether a schema's argument has a default that a lowering can use.

    The default of a dtype argument is a number, such as 4 for int64, which a lowering cannot use.
    """
    if not argument.has_default_value():
        return False
    return argument.default_value is None or "ScalarType" not in str(argument.real_type)


def _conform(op: OpOverload, result: Any, meta: Any, shaped: bool) -> Any:
    if isinstance(meta, list | tuple):
        if not isinstance(result, list | tuple) or len(result) != len(meta):
            raise ValueError(
                f"tpu: the lowering of {op.name()} gave {_described(result)}, torch has "
                f"{len(meta)} results. Fix it in torch_google/tpu/lowerings"
            )
        return [_conform(op, r, m, shaped) for r, m in zip(result, meta, strict=True)]
    if not isinstance(meta, torch.Tensor):
        return None if meta is None else result
    if result is None:  # output_mask excludes this gradient, but torch still gives it a shape
        return None
    array = jnp.asarray(result)
    dtype = dtypes.to_jax(meta.dtype)
    if array.dtype != dtype or array.weak_type:
        if jnp.iscomplexobj(array) and not meta.dtype.is_complex and meta.dtype != torch.bool:
            array = jnp.real(array)
        array = jax.lax.convert_element_type(array, dtype)
    if shaped and array.shape != tuple(meta.shape):
        raise ValueError(
            f"tpu: the lowering of {op.name()} gave {_described(array)}, torch has "
            f"{tuple(meta.shape)}. Fix it in torch_google/tpu/lowerings"
        )
    return array


def _described(result: Any) -> str:
    if isinstance(result, list | tuple):
        return f"{len(result)} results"
    return str(tuple(np.shape(result)))


def computed(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Apply a function to sizes and other numbers, using JAX if any of them is traced."""
    if any(isinstance(value, jax.Array) for value in (*args, *kwargs.values())):
        function = NUMBERS.get(function, function)
    return function(*args, **kwargs)


# JAX versions of functions on numbers. They are needed because numbers that are program inputs are
# traced, and Python's functions would need their values.
NUMBERS: dict[Any, Callable[..., Any]] = {
    torch.sym_float: lambda x: x * 1.0,
    torch.sym_int: lambda x: jnp.trunc(x).astype(jnp.int64),
    torch.sym_max: jnp.maximum,
    torch.sym_min: jnp.minimum,
    torch.sym_not: jnp.logical_not,
    torch.sym_ite: jnp.where,
    math.ceil: lambda x: jnp.ceil(x).astype(jnp.int64),
    math.floor: lambda x: jnp.floor(x).astype(jnp.int64),
    math.trunc: lambda x: jnp.trunc(x).astype(jnp.int64),
    torch._sym_sqrt: jnp.sqrt,
}
