# SPDX-License-Identifier: Apache-2.0
"""One random key for a forward graph and the backward graph that recomputes parts of it.

An operator that draws takes the key as an argument of its node, with its place in the joint graph: so
it draws the same wherever it is computed, and the key is saved for the backward pass like a tensor.
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from torch_google.tpu.program.prims import lowering_of

# No operator has an argument of this name.
ARGUMENT = "_drawn_with"

_library = torch.library.Library("torch_google", "FRAGMENT")
_library.define("random_key(*, Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
random_key: OpOverload = torch.ops.torch_google.random_key.default


def lift(joint: GraphModule) -> None:
    """Let all that is random in a joint graph draw with one key, which is a node of it."""
    nodes = [node for node in joint.graph.nodes if is_random(node)]
    if not nodes:
        return
    first = next(node for node in joint.graph.nodes if node.op != "placeholder")
    example = next(m for node in nodes if isinstance(m := _first(node), torch.Tensor))
    with joint.graph.inserting_before(first):
        key = joint.graph.call_function(random_key, (), {"device": example.device})
    key.meta["val"] = _fake_key(example)
    for place, node in enumerate(nodes):
        node.kwargs = {**node.kwargs, ARGUMENT: (key, place)}
    joint.recompile()


def is_random(node: Node) -> bool:
    """Whether a node draws."""
    op = node.target
    if not isinstance(op, OpOverload) or op is random_key:
        return False
    lowering = lowering_of(op)
    return torch.Tag.nondeterministic_seeded in op.tags or (
        lowering is not None and lowering.random
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
