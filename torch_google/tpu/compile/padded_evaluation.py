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

from torch_google.tpu.buckets import PaddedArray, PaddingRefusal, SizeScope, apply_rule
from torch_google.tpu.buckets.rules import RuleCall, plain
from torch_google.tpu.compile import randomness
from torch_google.tpu.program import constant
from torch_google.tpu.program.interpreter import computed

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
    if target is torch.ops.aten.as_strided.default:
        # It reads its argument's storage, of which only the view is known here.
        raise PaddingRefusal("as_strided")
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
    results = apply_rule(call)
    return tuple(results) if several else results[0]


def _fresh(drawn: Any, position: int, known: Callable[[Any], Any], key: Any) -> Any:
    """Return a node's random key, which is the same as in a program without padding."""
    if isinstance(drawn, tuple):
        return jax.random.fold_in(jax.random.wrap_key_data(known(drawn[0]).array), drawn[1])
    return None if key is None else jax.random.fold_in(key, position)


def _constant(attribute: Any) -> Any:
    if not isinstance(attribute, torch.Tensor):
        raise PaddingRefusal("a subgraph")
    array = constant(attribute)
    return PaddedArray(array, plain(array.shape))
