# SPDX-License-Identifier: Apache-2.0
"""Handles operators that AOTAutograd keeps for their side effects: checks that may raise errors.

AOTAutograd wraps such an operator in `with_effects`, which threads a token through the graph, so
that compiler passes neither remove nor reorder the operator. A program cannot raise an error, so
`remove_effects` removes the wrappers and tokens. The program returns the values to check as extra
outputs. The caller runs the checks on these values after the program.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

CHECK = torch.ops.aten._linalg_check_errors.default
"""The operator that raises torch's error if a matrix is singular, or not positive definite."""

_WRAPPER = torch.ops.higher_order.with_effects
_NEW_TOKEN = "prims::_make_token"
_LAST_TOKENS = "prims::_sink_tokens"


def remove_effects(graph: GraphModule) -> None:
    """Replace each operator call wrapped in `with_effects` with a plain call, without tokens.

    Higher-order operators stay wrapped. Idempotent.
    """
    wrapped = [node for node in graph.graph.nodes if _is_wrapped(node)]
    for node in wrapped:
        _unwrap(graph, node)
    # Iterate in reverse, so that the consumer of the last tokens is erased before their producers.
    for node in reversed(list(graph.graph.nodes)):
        if _is_unused(node):
            graph.graph.erase_node(node)
    if wrapped:
        graph.recompile()


def checks_of(graph: GraphModule) -> list[Node]:
    """Return the graph's calls to `CHECK`, in order."""
    return [node for node in graph.graph.nodes if node.target is CHECK]


def run_checks(checks: Sequence[Node], infos: Sequence[Any]) -> None:
    """Raise torch's error if a factorization has failed.

    `infos` holds the status that the program computed for each of the `checks`. Waits until the
    program has run.
    """
    for node, info in zip(checks, infos, strict=True):
        CHECK(info.cpu(), *node.args[1:], **node.kwargs)


def _is_wrapped(node: Node) -> bool:
    return node.target is _WRAPPER and isinstance(node.args[1], OpOverload)


def _is_unused(node: Node) -> bool:
    """Return whether a node produces or consumes tokens that no remaining wrapper uses."""
    name = node.target.name() if isinstance(node.target, OpOverload) else ""
    if name == _LAST_TOKENS:
        return all(_is_new_token(token) for token in node.all_input_nodes)
    return _is_new_token(node) and not node.users


def _is_new_token(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.name() == _NEW_TOKEN


def _unwrap(graph: GraphModule, node: Node) -> None:
    token, op, *args = node.args
    assert isinstance(op, OpOverload)
    with graph.graph.inserting_before(node):
        call = graph.graph.call_function(op, tuple(args), dict(node.kwargs))
    value = node.meta.get("val")
    results = list(value[1:]) if isinstance(value, list | tuple) else []
    single = len(op._schema.returns) == 1
    call.meta = {**node.meta, "val": results[0] if single and results else tuple(results)}
    for user in list(node.users):
        index = user.args[1]
        assert user.target is operator.getitem
        assert isinstance(index, int)
        if index == 0:
            user.replace_all_uses_with(token)
        elif single:
            user.replace_all_uses_with(call)
        else:
            user.args = (call, index - 1)
            continue
        graph.graph.erase_node(user)
    graph.graph.erase_node(node)
