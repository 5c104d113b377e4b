# SPDX-License-Identifier: Apache-2.0
"""Reads and writes at indices that come from tensors: index, gather, scatter, take and masks.

An out-of-range index is not detected: a read returns an arbitrary element, and a write is dropped.
The same applies to negative indices, except in operators for which they count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torch_google.tpu.dtypes import to_torch
from torch_google.tpu.lowerings.extrema import at_least_1d
from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.promotion import Array, Operand, convert
from torch_google.tpu.lowerings.table import lowering

Indices = Sequence[Array | None]

# Options for operators that do not accept negative indices, which JAX by default counts from the
# end.
_FROM_0: Any = {"wrap_negative_indices": False}


def _is_mask(index: Array) -> bool:
    return str(index.dtype).removeprefix("torch.") in ("bool", "uint8")


def _whole(indices: Indices) -> tuple[object, ...]:
    """Convert masks, which must be concrete arrays, to indices, and None to a full slice."""
    items: list[object] = []
    for index in indices:
        if index is None:
            items.append(slice(None))
        elif not _is_mask(index):
            items.append(index)
        elif isinstance(index, jax.core.Tracer):
            raise NotImplementedError(
                "tpu: x[mask]: a mask inside of a program has a shape that depends on "
                "values. Use torch.where, or index outside of the compiled function"
            )
        else:
            items.extend(np.nonzero(np.asarray(index)))
    return tuple(items)


def _refuse_empty_dimensions(self: Array, positions: tuple[object, ...]) -> None:
    """Raise the CPU's IndexError if `positions` selects elements of an empty dimension."""
    arrays = [(d, item) for d, item in enumerate(positions) if not isinstance(item, slice)]
    empty = any(self.shape[d] == 0 for d, _ in arrays)
    if empty and 0 not in np.broadcast_shapes(*(np.shape(item) for _, item in arrays)):
        raise IndexError("index is out of bounds for dimension with size 0")


def _has_mask(self: Array, indices: Indices) -> bool:
    return any(index is not None and _is_mask(index) for index in indices)


@lowering("aten::index.Tensor", "aten::_unsafe_index.Tensor", host_shape=_has_mask)
def index_tensor(self: Array, indices: Indices) -> Array:
    positions = _whole(indices)
    _refuse_empty_dimensions(self, positions)
    return self[positions]


@lowering("aten::_unsafe_masked_index")
def unsafe_masked_index(self: Array, mask: Array, indices: Indices, fill: Operand) -> Array:
    values = self[_whole(_inside(self, indices))]
    return jnp.where(mask, values, convert(fill, to_torch(self.dtype)))


@lowering("aten::_unsafe_masked_index_put_accumulate")
def unsafe_masked_index_put_accumulate(
    self: Array, mask: Array, indices: Indices, values: Array
) -> Array:
    masked = jnp.where(mask, values, jnp.zeros((), values.dtype))
    if self.dtype == jnp.bool_:  # for bools, addition is a logical "or"
        return self.at[_whole(_inside(self, indices))].max(masked)
    return opmath(self).at[_whole(_inside(self, indices))].add(opmath(masked))


def _inside(self: Array, indices: Indices) -> Indices:
    return [
        None if index is None else jnp.clip(index, -self.shape[axis], self.shape[axis] - 1)
        for axis, index in enumerate(indices)
    ]


@lowering("aten::index_put", "aten::_unsafe_index_put")
def index_put(self: Array, indices: Indices, values: Array, accumulate: bool = False) -> Array:
    masks = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    values = values.astype(self.dtype)
    if len(masks) == 1 and _is_mask(masks[0][1]):
        return _put_under_mask(self, masks[0][0], masks[0][1] != 0, values, accumulate)
    target = _whole(indices)
    _refuse_empty_dimensions(self, target)
    if not accumulate:
        return self.at[target].set(values)
    if self.dtype == jnp.bool_:
        return self.at[target].max(values)
    return opmath(self).at[target].add(opmath(values))


@lowering("aten::_index_put_impl")
def index_put_impl(
    self: Array, indices: Indices, values: Array, accumulate: bool = False, unsafe: bool = False
) -> Array:
    return index_put(self, indices, values, accumulate)


def _put_under_mask(self: Array, dim: int, mask: Array, values: Array, accumulate: bool) -> Array:
    if not values.size:  # the mask selects nothing
        return self
    # The result's shape must not depend on the mask. So the index of the value for each selected
    # element is the number of selected elements before it.
    ahead, behind = self.shape[:dim], self.shape[dim + mask.ndim :]
    if values.ndim > len(behind) and values.shape[-1 - len(behind)] != 1:
        order = jnp.clip(jnp.cumsum(mask.reshape(-1)) - 1, 0)
        values_shape = values.shape[: values.ndim - len(behind) - 1]
        flat = values.reshape(*values_shape, -1, *values.shape[values.ndim - len(behind) :])
        spread = jnp.take(flat, order, axis=len(values_shape), mode="clip")
        spread = spread.reshape(*values_shape, *mask.shape, *spread.shape[len(values_shape) + 1 :])
    elif values.ndim > len(behind):
        axis = values.ndim - len(behind) - 1
        spread = values.reshape(*values.shape[:axis], *[1] * mask.ndim, *values.shape[axis + 1 :])
    else:
        spread = values
    spread = jnp.broadcast_to(spread, (*ahead, *mask.shape, *behind))
    shaped = mask.reshape(*mask.shape, *[1] * len(behind))
    if not accumulate:
        return jnp.where(shaped, spread, self)
    total = self | spread if self.dtype == jnp.bool_ else self + spread
    return jnp.where(shaped, total, self)


@lowering("aten::index_select", "aten::index_select_backward")
def index_select(self: Array, dim: int, index: Array) -> Array:
    taken = jnp.take(at_least_1d(self), at_least_1d(index), axis=dim, mode="clip")
    return taken.reshape(()) if self.ndim == 0 else taken


def _rows(x: Array, dim: int, index: Array) -> tuple[object, ...]:
    return (*[slice(None)] * (dim % x.ndim), at_least_1d(index))


@lowering("aten::index_add")
def index_add(self: Array, dim: int, index: Array, source: Array, *, alpha: Operand = 1) -> Array:
    x, added = opmath(at_least_1d(self)), opmath(at_least_1d(source))
    target = x.at[_rows(x, dim, index)]
    if x.dtype == jnp.bool_:
        return target.max(added & (alpha != 0), **_FROM_0).reshape(self.shape)
    added = added * convert(alpha, to_torch(self.dtype))
    return target.add(added, **_FROM_0).reshape(self.shape)


@lowering("aten::index_copy")
def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    x = at_least_1d(self)
    copied = x.at[_rows(x, dim, index)].set(at_least_1d(source), **_FROM_0)
    return copied.reshape(self.shape)


@lowering("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(self: Array, dim: int, index: Array, value: Operand) -> Array:
    x = at_least_1d(self)
    filled = x.at[_rows(x, dim, index)].set(convert(value, to_torch(self.dtype)))
    return filled.reshape(self.shape)


@lowering("aten::index_reduce")
def index_reduce(
    self: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    x = at_least_1d(self)
    return _reduced(x, _rows(x, dim, index), at_least_1d(source), reduce, include_self).reshape(
        self.shape
    )


def _cells(x: Array, dim: int, index: Array) -> tuple[Array, ...]:
    """Return index arrays for all dimensions, with `index` as the one for `dim`."""
    places = [lax.broadcasted_iota(index.dtype, index.shape, axis) for axis in range(x.ndim)]
    places[dim % x.ndim] = index
    return tuple(places)


@lowering("aten::gather")
def gather(self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    x, places = at_least_1d(self), at_least_1d(index)
    if places.size == 0:
        return jnp.zeros(index.shape, self.dtype)
    return x.at[_cells(x, dim, places)].get(mode="clip", **_FROM_0).reshape(index.shape)


@lowering("aten::scatter.src")
def scatter_src(self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scattered(self, dim, index, src, None)


@lowering("aten::scatter.value")
def scatter_value(self: Array, dim: int, index: Array, value: Operand) -> Array:
    return _scattered(self, dim, index, convert(value, to_torch(self.dtype)), None)


@lowering("aten::scatter.reduce")
def scatter_with(self: Array, dim: int, index: Array, src: Array, *, reduce: str) -> Array:
    return _scattered(self, dim, index, src, reduce)


@lowering("aten::scatter.value_reduce")
def scatter_value_with(
    self: Array, dim: int, index: Array, value: Operand, *, reduce: str
) -> Array:
    return _scattered(self, dim, index, convert(value, to_torch(self.dtype)), reduce)


@lowering("aten::scatter_add")
def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    return _scattered(self, dim, index, src, "sum")


@lowering("aten::scatter_reduce.two")
def scatter_reduce(
    self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Array:
    return _scattered(self, dim, index, src, reduce, include_self)


def _scattered(
    self: Array,
    dim: int,
    index: Array,
    src: Array,
    reduce: str | None,
    include_self: bool = True,
) -> Array:
    x, places = at_least_1d(self), at_least_1d(index)
    if places.size == 0:
        return self
    if src.ndim == 0:
        source = jnp.broadcast_to(src, places.shape)
    else:
        source = src[tuple(slice(0, size) for size in places.shape)]
    cells = _cells(x, dim, places)
    source = source.astype(x.dtype)
    if reduce is None:
        return x.at[cells].set(source, **_FROM_0).reshape(self.shape)
    return _reduced(x, cells, source, reduce, include_self).reshape(self.shape)


def _reduced(
    x: Array, cells: tuple[object, ...], source: Array, reduce: str, include_self: bool
) -> Array:
    """Combine each element with the values scattered to it; keep elements that receive none."""
    reduction = {"add": "sum", "multiply": "prod"}.get(reduce, reduce)
    x, source = opmath(x), opmath(source)
    base = x
    if not include_self:
        hit = jnp.zeros(x.shape, jnp.bool_).at[cells].set(True, **_FROM_0)
        base = jnp.where(hit, _neutral(reduction, x.dtype), x)
    target = base.at[cells]
    if x.dtype == jnp.bool_:
        reduction = "amin" if reduction in ("prod", "amin") else "amax"
    if reduction == "sum":
        return target.add(source, **_FROM_0)
    if reduction == "prod":
        return target.multiply(source, **_FROM_0)
    if reduction == "amax":
        return target.max(source, **_FROM_0)
    if reduction == "amin":
        return target.min(source, **_FROM_0)
    count = jnp.full(x.shape, int(include_self), x.dtype)
    count = jnp.maximum(count.at[cells].add(jnp.ones_like(source), **_FROM_0), 1)
    total = target.add(source, **_FROM_0)
    is_integer = jnp.issubdtype(x.dtype, jnp.integer)
    return jnp.floor_divide(total, count) if is_integer else total / count


def _neutral(reduction: str, dtype: np.dtype) -> Array:
    if reduction in ("sum", "mean"):
        return jnp.zeros((), dtype)
    if reduction == "prod":
        return jnp.ones((), dtype)
    if dtype == jnp.bool_:
        return jnp.asarray(reduction == "amin")
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(-jnp.inf if reduction == "amax" else jnp.inf, dtype)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.min if reduction == "amax" else limits.max, dtype)


@lowering("aten::take")
def take(self: Array, index: Array) -> Array:
    return self.reshape(-1).at[index].get(mode="clip") if index.size else _nothing(self, index)


def _nothing(self: Array, index: Array) -> Array:
    return jnp.zeros(index.shape, self.dtype)


@lowering("aten::put")
def put(self: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    if not accumulate:
        return self.reshape(-1).at[index.reshape(-1)].set(source.reshape(-1)).reshape(self.shape)
    target = opmath(self).reshape(-1).at[index.reshape(-1)]
    values = opmath(source).reshape(-1)
    added = target.max(values) if self.dtype == jnp.bool_ else target.add(values)
    return added.reshape(self.shape)


@lowering("aten::masked_scatter")
def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    x, chosen = jnp.broadcast_arrays(self, mask != 0)
    if source.size == 0:
        return x
    order = jnp.cumsum(chosen.reshape(-1)) - 1
    values = jnp.take(source.reshape(-1), order, mode="clip").reshape(x.shape)
    return jnp.where(chosen, values, x)


@lowering("aten::masked_scatter_backward")
def masked_scatter_backward(grad_output: Array, mask: Array, sizes: Sequence[int]) -> Array:
    grad, chosen = jnp.broadcast_arrays(grad_output, mask != 0)
    count = int(np.prod(sizes))
    order = jnp.where(chosen.reshape(-1), jnp.cumsum(chosen.reshape(-1)) - 1, count)
    moved = jnp.zeros(count, grad.dtype).at[order].set(grad.reshape(-1), mode="drop")
    return moved.reshape(tuple(sizes))


@lowering("aten::masked_select", host_shape=True)
def masked_select(self: Array, mask: Array) -> Array:
    if mask.dtype != jnp.bool_:
        raise RuntimeError(
            f"masked_select: expected BoolTensor for mask, found one of {mask.dtype}. Use mask.bool()"
        )
    x, chosen = jnp.broadcast_arrays(self, mask != 0)
    return x[np.nonzero(np.asarray(chosen))] if x.ndim else x.reshape(1)[np.asarray(chosen)[None]]


@lowering("aten::nonzero", host_shape=True)
def nonzero(self: Array) -> Array:
    if self.ndim == 0:
        return jnp.zeros((int(np.asarray(self) != 0), 0), jnp.int64)
    return jnp.asarray(np.stack(np.nonzero(np.asarray(self != 0)), axis=1), jnp.int64)


@lowering("aten::nonzero_static")
def nonzero_static(self: Array, *, size: int, fill_value: int = -1) -> Array:
    if self.ndim == 0:
        return jnp.zeros((size, 0), jnp.int64)
    if not self.size:  # without elements, JAX fills with zeros instead of fill_value
        return jnp.full((size, self.ndim), fill_value, jnp.int64)
    indices = jnp.nonzero(self, size=size, fill_value=fill_value)
    return jnp.stack(indices, axis=1).astype(jnp.int64)


@lowering("aten::repeat_interleave.Tensor", host_shape=True)
def repeat_interleave(repeats: Array, *, output_size: int | None = None) -> Array:
    counts = np.asarray(repeats)
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != counts.sum():
        raise RuntimeError("allocated size does not match required size")
    return jnp.asarray(np.repeat(np.arange(len(counts)), counts), jnp.int64)
