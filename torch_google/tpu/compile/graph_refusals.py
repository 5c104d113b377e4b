# SPDX-License-Identifier: Apache-2.0
"""Rejects operator calls in a graph that the CPU would reject, as the eager modes do.

AOTAutograd decomposes operators before the backend sees them, and the resulting operators may
accept arguments that the original operator rejects. So a call that the CPU rejects is not
decomposed. The original operator stays in the graph, and calling the graph raises the CPU's error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_google.tpu.program import refusals

if TYPE_CHECKING:
    from torch_google.tpu.program.decompositions import Decompositions


def check_graph(graph: GraphModule) -> None:
    """Raise the CPU's error for the first operator call in a graph that the CPU rejects, if any."""
    checked = set()
    for module in graph.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if not isinstance(node.target, OpOverload) or node.target.namespace != "aten":
                continue
            args, kwargs = map_arg((node.args, dict(node.kwargs)), _value)
            values = _positional(node.target, args, kwargs)
            kind = f"{node.target} {pytree.tree_map(_described, values)}"
            if kind not in checked:
                _check(node.target, values)
                checked.add(kind)


def without_refused(table: Decompositions) -> Decompositions:
    """Return decompositions that leave a call as it is if the CPU rejects it."""
    return {op: partial(_decomposed, op, function) for op, function in table.items()}


def _decomposed(op: OpOverload, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        _check(op, _positional(op, args, kwargs))
    except refusals.REFUSALS:
        return NotImplemented
    return function(*args, **kwargs)


def _check(op: OpOverload, values: list[Any]) -> None:
    if op.namespace != "aten":
        return
    try:
        with _disable_current_modes(), torch.no_grad():
            refusals.check(op, values)
    except refusals.Refusal as refusal:
        raise refusal.error from None


def _value(node: Node) -> Any:
    return node.meta.get("val")


def _described(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype} {tuple(leaf.shape)}"
    return f"{type(leaf).__name__} {leaf}"


def _positional(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the arguments in schema order, with symbols replaced by example values."""
    schema = op._schema.arguments
    values = {argument.name: argument.default_value for argument in schema}
    values |= dict(zip((argument.name for argument in schema), args, strict=False))
    values |= {name: value for name, value in kwargs.items() if name in values}
    return [pytree.tree_map(_example_of, values[argument.name]) for argument in schema]


def _example_of(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        with _disable_current_modes():
            sizes = [_example_of(size) for size in leaf.shape]
            return torch.empty(sizes, dtype=leaf.dtype, device="meta")
    if isinstance(leaf, torch.SymInt):
        return leaf.node.hint if isinstance(leaf.node.hint, int) else 2
    if isinstance(leaf, torch.SymFloat | torch.SymBool):
        return 1.0 if isinstance(leaf, torch.SymFloat) else True
    return leaf
