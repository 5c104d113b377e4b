# SPDX-License-Identifier: Apache-2.0
"""Evaluates `as_strided` and its variants in a graph, where values have no storage.

These operators address positions in the storage of their argument. This module converts the
positions to indices into the argument, or into another tensor of the graph that the argument is a
view of.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from torch_google.tpu.lowerings.shapes import positions

_SCATTER = torch.ops.aten.as_strided_scatter.default
STRIDED = frozenset(
    {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default, _SCATTER}
)


Layout = tuple[Sequence[int], Sequence[int], int]
"""The sizes, strides and offset of a tensor, in elements."""


def _layout_of(meta: torch.Tensor) -> Layout:
    return meta.shape, meta.stride(), int(meta.storage_offset())


def evaluate(
    node: Node,
    values: Mapping[Node, Any],
    layout_of: Callable[[torch.Tensor], Layout] = _layout_of,
) -> jax.Array:
    """Return the value of a node whose target is one of the operators in STRIDED.

    `values` maps earlier nodes to their arrays. `layout_of` returns the layout of a fake tensor.

    Raises NotImplementedError if a position lies outside every tensor of the graph that shares the
    argument's storage.
    """
    named = dict(zip([a.name for a in node.target._schema.arguments], node.args, strict=False))
    named |= node.kwargs
    argument = named.pop("self")
    source = named.pop("src", None)
    own = layout_of(argument.meta["val"])
    size, stride, offset = (
        map_arg(named.get(name), values.__getitem__)
        for name in ("size", "stride", "storage_offset")
    )
    selected = positions(size, stride, own[2] if offset is None else int(offset))
    for holder in _sharing(argument):
        layout = layout_of(holder.meta["val"])
        indices = _indices(layout, selected)
        if indices is None:
            continue
        flat = values[holder].reshape(-1)
        if source is None:
            return flat[indices]
        written = flat.at[indices].set(values[source].astype(flat.dtype))
        # Elements of the argument that share memory have the same index, so they get the same
        # value.
        return written[_indices(layout, positions(*own))]
    raise NotImplementedError(
        f"tpu: {node.target} with size {list(size)}, stride {list(stride)} and storage_offset {offset} "
        f"uses memory outside of its argument, a view with sizes {list(own[0])}, strides "
        f"{list(own[1])} and offset {own[2]}, which is all that a graph has. Call it on the "
        "tensor that owns the memory, or outside of the compiled function"
    )


def _sharing(node: Node) -> Iterator[Node]:
    """Yield a node, the node that it is a view of, and so on, while the dtype stays the same."""
    while isinstance(node.meta.get("val"), torch.Tensor):
        yield node
        base = node
        if node.target is operator.getitem:
            base = node.args[0]  # `node` is one of several views that this operator returned
        if not isinstance(base.target, OpOverload) or not base.target.is_view:
            return
        viewed = base.args[0]
        if not isinstance(viewed, Node) or not _same_elements(viewed.meta.get("val"), node):
            return
        node = viewed


def _same_elements(viewed: Any, node: Node) -> bool:
    view = node.meta["val"]
    return (
        isinstance(viewed, torch.Tensor)
        and viewed.dtype == view.dtype
        and viewed.is_conj() == view.is_conj()
        and viewed.is_neg() == view.is_neg()
    )


def _indices(layout: Layout, selected: np.ndarray) -> np.ndarray | None:
    """Return the index of the element at each position, or None if a position has no element."""
    owned = positions(*layout).reshape(-1)
    if not selected.size:
        return selected
    if not owned.size:
        return None
    order = np.argsort(owned, kind="stable")
    ranks = np.minimum(np.searchsorted(owned[order], selected), owned.size - 1)
    indices = order[ranks]
    return indices if np.array_equal(owned[indices], selected) else None
