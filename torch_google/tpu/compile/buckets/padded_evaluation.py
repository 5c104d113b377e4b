# SPDX-License-Identifier: Apache-2.0
"""Evaluates a graph with symbolic sizes on padded arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from torch_google.tpu.compile import randomness
from torch_google.tpu.compile.buckets import rules
from torch_google.tpu.compile.buckets.padded_array import PaddedArray
from torch_google.tpu.compile.buckets.pointwise import pointwise
from torch_google.tpu.compile.buckets.rules import Rule, RuleCall, bare, plain
from torch_google.tpu.compile.buckets.sizes import PaddingRefusal, SizeScope
from torch_google.tpu.program import constant
from torch_google.tpu.program.interpreter import computed
from torch_google.tpu.program.lowering_lookup import lowering_of

_IGNORED = frozenset({torch.ops.aten.copy_.default, torch.ops.aten._assert_scalar.default})
_SIZES = frozenset({torch.ops.aten.sym_size.int, torch.ops.aten.sym_numel.default})


def evaluate(
    graph: GraphModule, inputs: Sequence[Any], scope: SizeScope, key: Any = None
) -> dict[Node, Any]:
    """Return the values of a graph's nodes: a PaddedArray for a tensor, a scalar for a number.

    Raises a PaddingRefusal with the reason if padding could affect a result.
    """
    values: dict[Node, Any] = {}
    remaining = iter(inputs)
    for position, node in enumerate(graph.graph.nodes):
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr":
            attribute = operator.attrgetter(str(node.target))(graph)
            values[node] = _constant(attribute)
        elif node.op == "call_function":
            values[node] = _call(node, position, values, scope, key)
    return values


def _call(node: Node, position: int, values: Mapping[Node, Any], scope: SizeScope, key: Any) -> Any:
    target: Any = node.target
    meta = node.meta.get("val")

    def known(value: Any) -> Any:
        return map_arg(value, values.__getitem__)

    if target in _IGNORED:
        return None
    if isinstance(meta, torch.SymInt):
        return scope.value(scope.expr(meta))
    if target in _SIZES:
        return scope.value(scope.expr(meta))
    if target is operator.getitem:
        return operator.getitem(*known(node.args))
    if not isinstance(target, OpOverload):
        if not callable(target) or isinstance(target, torch._ops.HigherOrderOperator):
            raise PaddingRefusal(str(target))
        return computed(target, known(node.args), known(node.kwargs))
    several = isinstance(meta, list | tuple)
    metas = tuple(meta) if several else (meta,)
    if target is randomness.random_key:
        return PaddedArray(data := jax.random.key_data(key), plain(data.shape))
    kwargs = dict(node.kwargs)
    fresh = _fresh(kwargs.pop(randomness.ARGUMENT, None), position, known, key)
    call = RuleCall(target, known(node.args), known(kwargs), metas, scope, fresh)
    try:
        results = _rule(target, call)(call)
    except PaddingRefusal:
        raise
    except Exception as error:  # if padding caused the error, a program without padding may work
        raise PaddingRefusal(f"{target.name()}: {type(error).__name__}") from error
    for result, fake in zip(results, metas, strict=True):
        if isinstance(result, PaddedArray):
            scope.expect(result.dims, fake.shape)
    return tuple(results) if several else results[0]


def _fresh(drawn: Any, position: int, known: Callable[[Any], Any], key: Any) -> Any:
    """Return a node's random key, which is the same as in a program without padding."""
    if isinstance(drawn, tuple):
        return jax.random.fold_in(jax.random.wrap_key_data(known(drawn[0]).array), drawn[1])
    return None if key is None else jax.random.fold_in(key, position)


def _rule(op: OpOverload, call: RuleCall) -> Rule:
    rule = rules.find(op)
    lowering = lowering_of(op)
    if lowering is not None and lowering.on_host(bare(call.args), bare(call.kwargs)):
        raise PaddingRefusal(f"{op.name()}, whose shape depends on values")
    if _is_exact(call):
        return _exactly
    if rule is not None:
        return rule
    if torch.Tag.pointwise in op.tags and (lowering is None or not lowering.random):
        return pointwise
    raise PaddingRefusal(op.name())


def _is_exact(call: RuleCall) -> bool:
    """Return whether an operator's arguments and results have the same sizes in all calls.

    Return False if an argument is a traced number, because it may be a size.
    """
    leaves = torch.utils._pytree.tree_leaves(
        (call.args, dict(call.kwargs)), is_leaf=lambda leaf: isinstance(leaf, PaddedArray)
    )
    changing = any(
        leaf.padded if isinstance(leaf, PaddedArray) else isinstance(leaf, jax.Array)
        for leaf in leaves
    )
    return not changing and all(
        call.scope.is_fixed(size)
        for meta in call.metas
        if isinstance(meta, torch.Tensor)
        for size in meta.shape
    )


def _exactly(call: RuleCall) -> list[PaddedArray | None]:
    results = call.lower(*call.args, **call.kwargs)
    return [None if array is None else PaddedArray(array, plain(array.shape)) for array in results]


def _constant(attribute: Any) -> Any:
    if not isinstance(attribute, torch.Tensor):
        raise PaddingRefusal("a subgraph")
    array = constant(attribute)
    return PaddedArray(array, plain(array.shape))
