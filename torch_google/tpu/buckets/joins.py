# SPDX-License-Identifier: Apache-2.0
"""Slices and concatenations, computed from the indices that elements have without padding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, axis_of, redim
from torch_google.tpu.buckets.pointwise import aligned
from torch_google.tpu.buckets.rules import RuleCall, rule, same
from torch_google.tpu.buckets.sizes import Dim, expression, is_padded, width
from torch_google.tpu.buckets.views import leading
from torch_google.tpu.lowerings.promotion import common, convert


@rule("aten::slice.Tensor", "aten::slice_copy.Tensor", "aten::narrow_copy")
def slice_(call: RuleCall) -> Any:
    x = call.args[0]
    axis = axis_of(x, call.argument("dim"))
    target_dim = call.scope.dim(call.metas[0].shape[axis])
    if call.scope.dim(_whole(call, axis)) == target_dim:
        return [x]
    x = leading(call.scope, x, axis)
    positions = _places(call, call.scope.real(x.dims[axis]), target_dim)
    dims = (*x.dims[:axis], target_dim, *x.dims[axis + 1 :])
    return [PaddedArray(_gathered(x.array, positions, axis), dims, x.uniform)]


@rule("aten::slice_scatter")
def slice_scatter(call: RuleCall) -> Any:
    x, source = call.args[:2]
    axis = axis_of(x, call.argument("dim"))
    x = leading(call.scope, x, axis)
    target_dims = _source_dims(source, x, axis)
    own = (
        target_dims[axis]
        if len(target_dims[axis]) <= 1
        else leading(call.scope, source, axis).dims[axis]
    )
    source = redim(call.scope, source, (*target_dims[:axis], own, *target_dims[axis + 1 :]))
    return [_written(call, x, source, axis, call.scope.real(x.dims[axis]))]


@rule("aten::slice_backward")
def slice_backward(call: RuleCall) -> Any:
    grad = call.args[0]
    axis = axis_of(grad, call.argument("dim"))
    grad = leading(call.scope, grad, axis)
    dims = (*grad.dims[:axis], call.own()[axis], *grad.dims[axis + 1 :])
    zeros = PaddedArray(jnp.zeros([width(dim) for dim in dims], grad.array.dtype), dims)
    return [_written(call, zeros, grad, axis, call.scope.real(dims[axis]))]


@rule("aten::select.int", "aten::select_copy.int")
def select(call: RuleCall) -> Any:
    x, dim, index = call.args
    axis = axis_of(x, dim)
    x = leading(call.scope, x, axis)
    position = _from_front(index, call.scope.real(x.dims[axis]))
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    return [
        PaddedArray(jax.lax.dynamic_index_in_dim(x.array, position, axis, keepdims=False), dims)
    ]


@rule("aten::select_backward")
def select_backward(call: RuleCall) -> Any:
    grad, sizes, dim, index = call.args
    axis = dim % len(sizes)
    own = call.own()[axis]
    dims = (*grad.dims[:axis], own, *grad.dims[axis:])
    zeros = jnp.zeros([width(part) for part in dims], grad.array.dtype)
    position = _from_front(index, call.scope.real(own))
    return [
        PaddedArray(jax.lax.dynamic_update_index_in_dim(zeros, grad.array, position, axis), dims)
    ]


@rule("aten::select_scatter")
def select_scatter(call: RuleCall) -> Any:
    x, source, dim, index = call.args
    axis = axis_of(x, dim)
    x = leading(call.scope, x, axis)
    source = redim(call.scope, source, (*x.dims[:axis], *x.dims[axis + 1 :]))
    position = _from_front(index, call.scope.real(x.dims[axis]))
    updates = source.array.astype(x.array.dtype)
    return [same(x, jax.lax.dynamic_update_index_in_dim(x.array, updates, position, axis))]


@rule(
    "aten::split_with_sizes",
    "aten::split.Tensor",
    "aten::unsafe_split.Tensor",
    "aten::unsafe_split_with_sizes",
    "aten::split_with_sizes_copy",
)
def split(call: RuleCall) -> Any:
    x = call.args[0]
    axis = axis_of(x, call.argument("dim"))
    x = leading(call.scope, x, axis)
    start: Any = 0
    parts = []
    for meta in call.metas:
        own = call.scope.dim(meta.shape[axis])
        positions = start + jnp.arange(width(own))
        dims = (*x.dims[:axis], own, *x.dims[axis + 1 :])
        parts.append(PaddedArray(_gathered(x.array, positions, axis), dims))
        start = start + call.scope.real(own)
    return parts


@rule("aten::unbind.int")
def unbind(call: RuleCall) -> Any:
    x = call.args[0]
    axis = axis_of(x, call.argument("dim"))
    dims = (*x.dims[:axis], *x.dims[axis + 1 :])
    return [
        PaddedArray(jax.lax.index_in_dim(x.array, position, axis, keepdims=False), dims)
        for position in range(len(call.metas))
    ]


@rule("aten::cat", "aten::concat")
def cat(call: RuleCall) -> Any:
    tensors = call.args[0]
    rank = len(call.metas[0].shape)
    axis = call.argument("dim") % rank
    # Tensors of a different rank are empty and one-dimensional, so they affect only the dtype.
    same_rank = [x for x in tensors if len(x.dims) == rank]
    promoted = common(*(x.array for x in tensors))
    arrays = [array for array, x in zip(promoted, tensors, strict=True) if len(x.dims) == rank]
    parts = [
        PaddedArray(array, x.dims, x.uniform) for array, x in zip(arrays, same_rank, strict=True)
    ]
    parts = [leading(call.scope, part, axis) for part in parts]
    others = [
        PaddedArray(jnp.take(p.array, 0, axis, mode="clip"), _without(p, axis)) for p in parts
    ]
    common_dims = aligned(call.scope, others)[0]
    parts = [
        redim(call.scope, p, (*common_dims[:axis], p.dims[axis], *common_dims[axis:]))
        for p in parts
    ]
    total = call.own()[axis]
    dims = (*common_dims[:axis], total, *common_dims[axis:])
    if not any(is_padded(part.dims[axis]) for part in parts):
        return [PaddedArray(jnp.concatenate([part.array for part in parts], axis), dims)]
    # Write each part after the previous part's real elements, over the previous part's padding.
    room = sum(part.array.shape[axis] for part in parts)
    shape = [width(dim) for dim in dims]
    shape[axis] = room
    joined = jnp.zeros(shape, parts[0].array.dtype)
    start: Any = 0
    for part in parts:
        joined = jax.lax.dynamic_update_slice_in_dim(joined, part.array, start, axis)
        start = start + call.scope.real(part.dims[axis])
    return [PaddedArray(_fitted(joined, width(total), axis), dims)]


@rule("aten::stack")
def stack(call: RuleCall) -> Any:
    dims, parts = aligned(call.scope, call.args[0])
    axis = call.argument("dim") % len(call.metas[0].shape)
    arrays = common(*(part.array for part in parts))
    own = call.scope.dims([len(parts)])
    return [PaddedArray(jnp.stack(arrays, axis), (*dims[:axis], *own, *dims[axis:]))]


@rule("aten::constant_pad_nd")
def pad(call: RuleCall) -> Any:
    x, widths = call.args[:2]
    value = convert(call.argument("value"), call.metas[0].dtype)
    for offset in range(0, len(widths), 2):
        axis = len(x.dims) - 1 - offset // 2
        before, after = widths[offset], widths[offset + 1]
        if isinstance(before, int) and isinstance(after, int) and before == after == 0:
            continue
        own = call.scope.dim(call.metas[0].shape[axis])
        x = leading(call.scope, x, axis)
        positions = jnp.arange(width(own)) - before
        shape = [1] * len(x.dims)
        shape[axis] = width(own)
        inside = (positions >= 0) & (positions < call.scope.real(x.dims[axis]))
        array = jnp.where(inside.reshape(shape), _gathered(x.array, positions, axis), value)
        x = PaddedArray(array, (*x.dims[:axis], own, *x.dims[axis + 1 :]))
    return [x]


def _whole(call: RuleCall, axis: int) -> Any:
    """Return the symbolic size of the sliced dimension."""
    return expression(call.args[0].dims[axis])


def _places(call: RuleCall, size: Any, target_dim: Dim) -> jax.Array:
    """Return the indices of the elements in a slice, and arbitrary indices for its padding."""
    names = {argument.name for argument in call.op._schema.arguments}
    start = call.argument("start")
    step = call.argument("step") if "step" in names else 1
    first = _within(0 if start is None else start, size)
    return first + jnp.arange(width(target_dim)) * step


def _within(start: Any, size: Any) -> Any:
    """Normalize and clamp a start index as Python does: negative indices count from the end."""
    if isinstance(start, int) and start >= 0:
        return start if not isinstance(size, int) else min(start, size)
    start = _from_front(start, size)
    return jnp.clip(start, 0, size)


def _from_front(index: Any, size: Any) -> Any:
    if isinstance(index, int):
        return index + size if index < 0 else index
    return jnp.where(index < 0, index + size, index)


def _gathered(array: jax.Array, positions: jax.Array, axis: int) -> jax.Array:
    return jnp.take(array, positions, axis=axis, mode="clip")


def _written(
    call: RuleCall, x: PaddedArray, source: PaddedArray, axis: int, size: Any
) -> PaddedArray:
    """Return x with a slice replaced by the elements of `source` that are not padding."""
    dim = source.dims[axis]
    positions = _places(call, size, dim)
    real = jnp.arange(width(dim)) < call.scope.real(dim)
    positions = jnp.where(real, positions, x.array.shape[axis])
    index = (*[slice(None)] * axis, positions)
    return same(x, x.array.at[index].set(source.array.astype(x.array.dtype), mode="drop"))


def _source_dims(source: PaddedArray, x: PaddedArray, axis: int) -> tuple[Dim, ...]:
    return (*x.dims[:axis], source.dims[axis], *x.dims[axis + 1 :])


def _without(x: PaddedArray, axis: int) -> tuple[Dim, ...]:
    return (*x.dims[:axis], *x.dims[axis + 1 :])


def _fitted(array: jax.Array, size: int, axis: int) -> jax.Array:
    have = array.shape[axis]
    if have >= size:
        return jax.lax.slice_in_dim(array, 0, size, axis=axis)
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - have)
    return jnp.pad(array, widths)
