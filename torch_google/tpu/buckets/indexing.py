# SPDX-License-Identifier: Apache-2.0
"""Reads and writes by index. Writes at padded indices are dropped."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import (
    PaddedArray,
    axis_of,
    cleared,
    redim,
    valid,
)
from torch_google.tpu.buckets.pointwise import aligned
from torch_google.tpu.buckets.rules import RuleCall, plain, require, rule, same
from torch_google.tpu.buckets.sizes import Dim, PaddingRefusal, SizeScope, is_padded, width
from torch_google.tpu.buckets.views import leading
from torch_google.tpu.lowerings.promotion import convert


@rule("aten::embedding")
def embedding(call: RuleCall) -> Any:
    weight, indices = call.args[:2]
    require(call.op.name(), weight.dims)
    array = call.lower(*call.args, **call.kwargs)[0]
    return [PaddedArray(array, (*indices.dims, weight.dims[1]))]


@rule("aten::embedding_dense_backward")
def embedding_backward(call: RuleCall) -> Any:
    grad, indices, size, *others = call.args
    if others[1]:
        raise PaddingRefusal("embeddings whose gradients are scaled by frequency")
    if not isinstance(size, int):
        raise PaddingRefusal("a table with a symbolic number of rows")
    grad = redim(call.scope, grad, (*indices.dims, grad.dims[-1]))
    array = call.lower(cleared(call.scope, grad), cleared(call.scope, indices), size, *others)[0]
    return [PaddedArray(array, plain(array.shape) if array is not None else ())]


@rule("aten::index_select")
def index_select(call: RuleCall) -> Any:
    x, dim, index = call.args
    axis = axis_of(x, dim)
    x = leading(call.scope, x, axis) if x.dims else x
    array = call.lower(x, axis, _clamped(call.scope, x.dims, axis, index))[0]
    own = index.dims or ((),)
    return [PaddedArray(array, (*x.dims[:axis], *own, *x.dims[axis + 1 :]) if x.dims else ())]


@rule("aten::index_add", "aten::index_copy")
def index_write(call: RuleCall) -> Any:
    x, dim, index, source, *others = call.args
    axis = axis_of(x, dim)
    if not x.dims or not source.dims or not index.dims:
        raise PaddingRefusal(f"{call.op.name()} of a scalar")
    x = leading(call.scope, x, axis)
    source = redim(call.scope, source, (*x.dims[:axis], index.dims[0], *x.dims[axis + 1 :]))
    return [
        same(
            x,
            call.lower(
                x,
                axis,
                _nowhere(call.scope, index, x.array.shape[axis]),
                source,
                *others,
                **call.kwargs,
            )[0],
        )
    ]


@rule("aten::gather")
def gather(call: RuleCall) -> Any:
    x, dim, index = call.args[:3]
    if not x.dims or not index.dims:
        return [PaddedArray(call.lower(*call.args, **call.kwargs)[0], index.dims)]
    axis = axis_of(x, dim)
    x = _beside(call.scope, x, index, axis)
    clamped = _clamped(call.scope, x.dims, axis, index)
    return [PaddedArray(call.lower(x, axis, clamped, *call.args[3:], **call.kwargs)[0], index.dims)]


@rule("aten::scatter.src", "aten::scatter.value", "aten::scatter_add")
@rule("aten::scatter_reduce.two")
def scatter(call: RuleCall) -> Any:
    x, dim, index, source, *others = call.args
    if not x.dims or not index.dims:
        raise PaddingRefusal(f"{call.op.name()} of a scalar")
    axis = axis_of(x, dim)
    x = _beside(call.scope, x, index, axis)
    if isinstance(source, PaddedArray):
        source = _beside(call.scope, source, index, None)
    indices = _nowhere(call.scope, index, x.array.shape[axis])
    return [same(x, call.lower(x, axis, indices, source, *others, **call.kwargs)[0])]


@rule("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def index(call: RuleCall) -> Any:
    x, indices = call.args
    x, items, _, dims = _indexed(call, x, indices, clamp=True)
    array = jnp.asarray(x.array[items])
    return [PaddedArray(array, dims)]


@rule("aten::index_put", "aten::_unsafe_index_put")
def index_put(call: RuleCall) -> Any:
    x, indices, values = call.args[:3]
    if len(indices) == 1 and indices[0] is not None and indices[0].array.dtype == jnp.bool_:
        return _masked(call, x, indices[0], values)
    x, items, outside, dims = _indexed(call, x, indices)
    if outside is not None:  # move padded indices past the end, where writes are dropped
        first = next(position for position, item in enumerate(items) if not isinstance(item, slice))
        moved = jnp.where(outside, x.array.shape[first], items[first])
        items = (*items[:first], moved, *items[first + 1 :])
    lead = len(dims) - len(values.dims)
    target_dims = tuple(
        () if own == () else dims[lead + position] for position, own in enumerate(values.dims)
    )
    updates = redim(call.scope, values, target_dims).array.astype(x.array.dtype)
    target = x.array.at[items]
    if not call.argument("accumulate"):
        return [same(x, target.set(updates, mode="drop"))]
    if x.array.dtype == jnp.bool_:
        return [same(x, target.max(updates, mode="drop"))]
    return [same(x, target.add(updates, mode="drop"))]


def _masked(call: RuleCall, x: PaddedArray, mask: PaddedArray, values: PaddedArray) -> Any:
    if values.dims or call.argument("accumulate"):
        raise PaddingRefusal("a mask as an index")
    mask = redim(call.scope, mask, x.dims[: len(mask.dims)])
    shape = [*mask.array.shape, *[1] * (len(x.dims) - len(mask.dims))]
    value = convert(values.array, call.metas[0].dtype)
    return [same(x, jnp.where(mask.array.reshape(shape), value, x.array))]


def _indexed(
    call: RuleCall, x: PaddedArray, indices: Any, *, clamp: bool = False
) -> tuple[PaddedArray, tuple[Any, ...], Any, tuple[Dim, ...]]:
    """Return x, the indices, a mask of the padded indices, and the dims of the result.

    In the returned x, the padding of each indexed dimension is at the end. The mask is None if the
    indices have no padding. With `clamp`, indices past the end select the last element.
    """
    indexed_axes = [position for position, item in enumerate(indices) if item is not None]
    tensors = [indices[position] for position in indexed_axes]
    if any(item.array.dtype in (jnp.bool_, jnp.uint8) for item in tensors):
        raise PaddingRefusal("a mask as an index")
    for axis in indexed_axes:
        x = leading(call.scope, x, axis)
    lead, alike = aligned(call.scope, tensors)
    rank = len(lead)
    outside: Any = None
    for item in alike:
        real = valid(call.scope, item, range(len(item.dims)))
        if real is not None:
            real = real.reshape((1,) * (rank - real.ndim) + real.shape)
            outside = ~real if outside is None else outside | ~real
    items: list[Any] = [slice(None)] * len(x.dims)
    for axis, item in zip(indexed_axes, alike, strict=True):
        array = item.array
        if is_padded(x.dims[axis]):
            size = jnp.asarray(call.scope.real(x.dims[axis]), array.dtype)
            array = jnp.where(array < 0, array + size, array)
            if clamp:
                array = jnp.minimum(array, size - 1)
        items[axis] = array
    rest = [dim for axis, dim in enumerate(x.dims) if axis not in indexed_axes]
    together = indexed_axes == list(range(indexed_axes[0], indexed_axes[-1] + 1))
    ahead = indexed_axes[0] if together else 0
    return x, tuple(items), outside, (*rest[:ahead], *lead, *rest[ahead:])


def _clamped(
    scope: SizeScope, dims: tuple[Dim, ...], axis: int, index: PaddedArray
) -> PaddedArray | jax.Array:
    """Clamp indices past the end to the last element that is not padding."""
    if not dims or not is_padded(dims[axis]):
        return index
    size = jnp.asarray(scope.real(dims[axis]), index.array.dtype)
    return jnp.minimum(index.array, size - 1)


def _nowhere(scope: SizeScope, index: PaddedArray, end: int) -> jax.Array:
    """Return the indices, with padded indices replaced by `end`, where writes are dropped."""
    real = valid(scope, index, range(len(index.dims)))
    return index.array if real is None else jnp.where(real, index.array, end)


def _beside(scope: SizeScope, x: PaddedArray, index: PaddedArray, axis: int | None) -> PaddedArray:
    """Return x with the same padding as `index` in every dimension except `axis`."""
    for position, (own, index_dim) in enumerate(zip(x.dims, index.dims, strict=True)):
        if position == axis:
            x = leading(scope, x, position)
        elif own != index_dim:
            if len(own) > 1 or len(index_dim) > 1:
                raise PaddingRefusal("an index with different padding")
            if width(own) < width(index_dim):
                grown = jnp.take(x.array, jnp.arange(width(index_dim)), position, mode="clip")
                x = PaddedArray(grown, (*x.dims[:position], index_dim, *x.dims[position + 1 :]))
    return x
