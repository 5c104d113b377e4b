# SPDX-License-Identifier: Apache-2.0
"""Reductions that select an element: maximum, minimum, median and mode.

NaN counts as both the maximum and the minimum. If elements are equal, the index of the first one is
returned, unless an operator's docstring says otherwise.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from torch_google.tpu.lowerings.promotion import Array
from torch_google.tpu.lowerings.reductions import Dims, axes
from torch_google.tpu.lowerings.table import lowering


def at_least_1d(x: Array) -> Array:
    return x.reshape(1) if x.ndim == 0 else x


def _picked(self: Array, index: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """Return the elements at `index`, which has size 1 along `dim`, and the index as int64."""
    values = jnp.take_along_axis(at_least_1d(self), index, axis=dim)
    if keepdim and self.ndim:
        return values, index.astype(jnp.int64)
    return jnp.squeeze(values, dim), jnp.squeeze(index, dim).astype(jnp.int64)


@lowering("aten::amax")
def amax(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return jnp.max(self, axis=axes(self, dim), keepdims=keepdim)


@lowering("aten::amin")
def amin(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return jnp.min(self, axis=axes(self, dim), keepdims=keepdim)


@lowering("aten::aminmax", "aten::_aminmax.dim")
def aminmax(self: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(self, dim, keepdim), amax(self, dim, keepdim)


@lowering("aten::_aminmax")
def aminmax_all(self: Array) -> tuple[Array, Array]:
    return jnp.min(self), jnp.max(self)


@lowering("aten::max")
def max_all(self: Array) -> Array:
    return jnp.max(self)


@lowering("aten::min")
def min_all(self: Array) -> Array:
    return jnp.min(self)


@lowering("aten::max.dim")
def max_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    index = jnp.argmax(at_least_1d(self), axis=dim, keepdims=True)
    return _picked(self, index, dim, keepdim)


@lowering("aten::min.dim")
def min_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    index = jnp.argmin(at_least_1d(self), axis=dim, keepdims=True)
    return _picked(self, index, dim, keepdim)


@lowering("aten::argmax")
def argmax(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    if self.ndim == 0:
        return jnp.zeros((), jnp.int64)
    return jnp.argmax(self, axis=dim, keepdims=keepdim).astype(jnp.int64)


@lowering("aten::argmin")
def argmin(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    if self.ndim == 0:
        return jnp.zeros((), jnp.int64)
    return jnp.argmin(self, axis=dim, keepdims=keepdim).astype(jnp.int64)


def _isnan(x: Array) -> Array:
    return x != x


def _middle(self: Array, dim: int, keepdim: bool, *, skip_nan: bool) -> tuple[Array, Array]:
    x = at_least_1d(self)
    order = jnp.argsort(x, axis=dim, stable=True)  # argsort puts NaN last
    missing = jnp.sum(_isnan(x), axis=dim, keepdims=True)
    if skip_nan:
        middle = jnp.maximum((x.shape[dim] - missing - 1) // 2, 0)
        index = jnp.take_along_axis(order, middle, axis=dim)
    else:
        lower = lax.slice_in_dim(order, (x.shape[dim] - 1) // 2, (x.shape[dim] + 1) // 2, axis=dim)
        if x.shape[dim] % 2 == 0:
            lower = lax.slice_in_dim(order, x.shape[dim] // 2 - 1, x.shape[dim] // 2, axis=dim)
        first_nan = jnp.argmax(_isnan(x), axis=dim, keepdims=True).astype(lower.dtype)
        index = jnp.where(missing > 0, first_nan, lower)
    return _picked(self, index, dim, keepdim)


@lowering("aten::median.dim")
def median_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """Return the lower of the two middle elements, or NaN if any element is NaN."""
    return _middle(self, dim, keepdim, skip_nan=False)


@lowering("aten::nanmedian.dim")
def nanmedian_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _middle(self, dim, keepdim, skip_nan=True)


@lowering("aten::median")
def median(self: Array) -> Array:
    return _nan_if_empty(self, skip_nan=False)


@lowering("aten::nanmedian")
def nanmedian(self: Array) -> Array:
    return _nan_if_empty(self, skip_nan=True)


def _nan_if_empty(self: Array, *, skip_nan: bool) -> Array:
    if self.size == 0:
        return jnp.full((), _converted_nan(self.dtype), self.dtype)
    return _middle(self.reshape(-1), 0, False, skip_nan=skip_nan)[0]


def _converted_nan(dtype: jnp.dtype) -> float | int | bool:
    """Return the result of converting NaN to a dtype on x86."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if jnp.issubdtype(dtype, jnp.bool):
        return True
    return jnp.iinfo(dtype).min if dtype.itemsize >= 4 else 0


@lowering("aten::kthvalue")
def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Return the k-th smallest element, counting from 1."""
    order = jnp.argsort(at_least_1d(self), axis=dim, stable=True)
    return _picked(self, lax.slice_in_dim(order, k - 1, k, axis=dim), dim, keepdim)


@lowering("aten::mode")
def mode(self: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """Return the most frequent element (the smallest, if several tie) and its last position."""
    x = at_least_1d(self)
    axis = dim % x.ndim
    order = jnp.argsort(x, axis=axis, stable=True)
    ordered = jnp.take_along_axis(x, order, axis=axis)
    positions = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    begins = ordered != jnp.roll(ordered, 1, axis=axis)
    start = lax.cummax(jnp.where(begins | (positions == 0), positions, 0), axis=axis)
    longest = jnp.argmax(positions - start, axis=axis, keepdims=True)
    return _picked(self, jnp.take_along_axis(order, longest, axis=axis), dim, keepdim)
