# SPDX-License-Identifier: Apache-2.0
"""Replaces in-place and out= collectives with functional collectives followed by copies.

AOTAutograd rejects in-place collectives, because their results alias their arguments.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

# In-place operators in torch.ops._c10d_functional. Their functional variants lack the final `_`.
_IN_PLACE = frozenset({"all_reduce_", "all_reduce_coalesced_", "broadcast_"})
# The suffix of the operators that write to an `out` argument.
_OUT = "_out"
_NAMESPACE = "_c10d_functional"


def replace_written_collectives(graph: GraphModule) -> None:
    """Replace the in-place and out= collectives in a Dynamo graph and its subgraphs."""
    for module in graph.modules():
        if not isinstance(module, GraphModule):
            continue
        nodes = [node for node in module.graph.nodes if node.op == "call_function"]
        replaced = [_replace(module, node) for node in nodes]
        if any(replaced):
            module.recompile()


def _replace(module: GraphModule, node: Node) -> bool:
    name = _name(node.target)
    if name not in _IN_PLACE and not name.endswith(_OUT):
        return False
    functional = getattr(torch.ops._c10d_functional, name.removesuffix(_OUT).removesuffix("_"))
    kwargs = dict(node.kwargs)
    written: Any = kwargs.pop("out", None)
    if written is None:
        written = (
            node.args[0] if node.args else kwargs["inputs" if "coalesced" in name else "input"]
        )
    with module.graph.inserting_before(node):
        results = module.graph.call_function(functional.default, node.args, kwargs)
        if isinstance(written, list | tuple):
            for index, tensor in enumerate(written):
                part = module.graph.call_function(operator.getitem, (results, index))
                module.graph.call_method("copy_", (tensor, part))
        else:
            module.graph.call_method("copy_", (written, results))
    if isinstance(written, Node):
        node.replace_all_uses_with(written)
    else:
        # The original collective returns a list, and each of its users extracts one item.
        for user in list(node.users):
            user.replace_all_uses_with(written[user.args[1]])
            module.graph.erase_node(user)
    module.graph.erase_node(node)
    return True


def _name(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    if not isinstance(target, torch._ops.OpOverloadPacket):
        return ""
    namespace, _, name = target._qualified_op_name.partition("::")
    return name if namespace == _NAMESPACE else ""
