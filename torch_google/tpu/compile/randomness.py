# SPDX-License-Identifier: Apache-2.0
"""Makes random operators draw the same numbers when the backward pass recomputes them.

A forward graph and its backward graph share one random key, which is saved for the backward pass
like a tensor. The node of a random operator takes an additional argument: a pair of the key and the
node's index among the random nodes of the joint graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node

from torch_google.tpu.program.lowering_lookup import lowering_of

_Graphs: TypeAlias = tuple[GraphModule, GraphModule]

# The name of the argument that is added to random operators. No operator may have an argument of
# its own with this name.
ARGUMENT = "_drawn_with"

_library = torch.library.Library("torch_google", "FRAGMENT")
_library.define("random_key(*, Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
random_key: OpOverload = torch.ops.torch_google.random_key.default


def partition(joint: GraphModule, split: Callable[[], _Graphs]) -> _Graphs:
    """Add a random key to a joint graph, pass it to all random operators, and split the graph.

    Raises NotImplementedError if the backward pass would rerun a subgraph that draws random
    numbers.
    """
    _refuse_drawn_again(joint)
    nodes = [node for node in joint.graph.nodes if is_random(node)]
    if not nodes:
        return split()
    first = next(node for node in joint.graph.nodes if node.op != "placeholder")
    example = next(m for node in nodes if isinstance(m := _first(node), torch.Tensor))
    with joint.graph.inserting_before(first):
        key = joint.graph.call_function(random_key, (), {"device": example.device})
    key.meta["val"] = _fake_key(example)
    for position, node in enumerate(nodes):
        node.kwargs = {**node.kwargs, ARGUMENT: (key, position)}
        # Hide that the operators are random, because partitioners save the generator's state for
        # random operators.
        node.target = _RandomOp(node.target)
    joint.recompile()
    graphs = split()
    for graph in graphs:
        for node in graph.graph.nodes:
            if isinstance(node.target, _RandomOp):
                node.target = node.target.op
        graph.recompile()
    return graphs


class _RandomOp:
    """A wrapped random operator, which the partitioner does not recognize as random."""

    def __init__(self, op: OpOverload) -> None:
        self.op = op
        self.__name__ = op.__name__

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise TypeError(f"tpu: {self.op.name()} of a joint graph was called")


def is_random(node: Node) -> bool:
    """Return whether a node draws random numbers."""
    op = node.target
    if not isinstance(op, OpOverload) or op is random_key:
        return False
    lowering = lowering_of(op)
    return torch.Tag.nondeterministic_seeded in op.tags or (
        lowering is not None and lowering.random
    )


def _refuse_drawn_again(joint: GraphModule) -> None:
    """Reject recomputed subgraphs, such as branches of cond, that draw random numbers.

    The recomputed subgraph would not draw the same numbers as the forward pass, so the gradient
    would be wrong.
    """
    backward: set[Node] = set()
    for node in joint.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "placeholder":
            if str(node.target).startswith("tangents"):
                backward.add(node)
        elif any(each in backward for each in inputs):
            backward.add(node)
            if isinstance(node.target, HigherOrderOperator) and any(
                _draws(joint, each) for each in inputs
            ):
                raise NotImplementedError(
                    f"tpu: torch.compile: the gradient of {node.target.name()} would draw "
                    "different random numbers than its function did. Draw them before, and pass them "
                    "as operands; or call it under torch.no_grad()"
                )


def _draws(owner: GraphModule, node: Node) -> bool:
    """Return whether a node refers to a subgraph that draws random numbers."""
    if node.op != "get_attr":
        return False
    graph = getattr(owner, str(node.target), None)
    return isinstance(graph, GraphModule) and any(
        is_random(each) or _draws(graph, each) for each in graph.graph.nodes
    )


def _first(node: Node) -> object:
    value = node.meta.get("val")
    return value[0] if isinstance(value, list | tuple) else value


def _fake_key(like: torch.Tensor) -> torch.Tensor:
    mode = getattr(like, "fake_mode", None)
    if mode is None:
        return torch.empty(2, dtype=torch.uint32, device="meta")
    with mode:
        return torch.empty(2, dtype=torch.uint32, device=like.device)
