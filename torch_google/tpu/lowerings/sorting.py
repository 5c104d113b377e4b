# SPDX-License-Identifier: Apache-2.0
"""Sorting, top k, binary search and unique values. NaN counts as the largest value."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torch_google.tpu.lowerings.extrema import at_least_1d
from torch_google.tpu.lowerings.promotion import Array, Operand, common
from torch_google.tpu.lowerings.table import lowering


def _sorted(self: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    x = at_least_1d(self)
    axis = dim % x.ndim
    places = lax.broadcasted_iota(jnp.int64, x.shape, axis)
    if descending:
        # To preserve the order of equal elements, reverse the input, sort it stably, and flip the
        # result.
        x, places = jnp.flip(x, axis), jnp.flip(places, axis)
    values, order = lax.sort((x, places), dimension=axis, num_keys=1, is_stable=True)
    if descending:
        values, order = jnp.flip(values, axis), jnp.flip(order, axis)
    return values.reshape(self.shape), order.reshape(self.shape)


@lowering("aten::sort")
def sort(self: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    return _sorted(self, dim, descending)


@lowering("aten::sort.stable")
def sort_stable(
    self: Array, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Array, Array]:
    return _sorted(self, dim, descending)


@lowering("aten::argsort.stable")
def argsort_stable(self: Array, *, stable: bool, dim: int = -1, descending: bool = False) -> Array:
    return _sorted(self, dim, descending)[1]


@lowering("aten::topk")
def topk(
    self: Array,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> tuple[Array, Array]:
    values, order = _sorted(at_least_1d(self), dim, largest)
    values = lax.slice_in_dim(values, 0, k, axis=dim)
    order = lax.slice_in_dim(order, 0, k, axis=dim)
    return (values, order) if self.ndim else (values.reshape(()), order.reshape(()))


@lowering("aten::searchsorted.Tensor", "aten::searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Array,
    self: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Search for each value in the corresponding row of the sequence, or in its only row."""
    if sorter is not None:
        sorted_sequence = jnp.take_along_axis(sorted_sequence, sorter, axis=-1)
    sequence, values = common(sorted_sequence, self)
    direction = side or ("right" if right else "left")
    if sequence.ndim == 1:
        return jnp.searchsorted(sequence, values, side=direction)
    if not (sequence.size and values.size):
        return jnp.zeros(values.shape, jnp.int64)
    rows = sequence.reshape(-1, sequence.shape[-1])
    queries = values.reshape(rows.shape[0], -1)
    indices = jax.vmap(lambda row, value: jnp.searchsorted(row, value, side=direction))(
        rows, queries
    )
    return indices.reshape(values.shape)


@lowering("aten::bucketize.Tensor", "aten::bucketize.Scalar")
def bucketize(
    self: Operand, boundaries: Array, *, out_int32: bool = False, right: bool = False
) -> Array:
    return searchsorted(boundaries, self, right=right)


_Unique = tuple[Array, Array, Array]


@lowering("aten::_unique2", host_shape=True)
def unique2(
    self: Array,
    sorted: bool = True,  # noqa: A002 (the schema's name)
    return_inverse: bool = False,
    return_counts: bool = False,
) -> _Unique:
    unique = np.unique(
        _host(self).reshape(-1), return_inverse=True, return_counts=True, equal_nan=False
    )
    values, inverse, counts = unique
    return _unique(self, values, inverse.reshape(self.shape), counts, True, return_counts)


@lowering("aten::_unique", host_shape=True)
def unique_(
    self: Array,
    sorted: bool = True,  # noqa: A002 (the schema's name)
    return_inverse: bool = False,
) -> tuple[Array, Array]:
    values, inverse, _ = unique2(self, sorted, True)
    return values, inverse if return_inverse else jnp.zeros(0, jnp.int64)


@lowering("aten::unique_dim", host_shape=True)
def unique_dim(
    self: Array,
    dim: int,
    sorted: bool = True,  # noqa: A002 (the schema's name)
    return_inverse: bool = False,
    return_counts: bool = False,
) -> _Unique:
    if self.size == 0:
        return self, jnp.zeros(0, jnp.int64), jnp.zeros(0, jnp.int64)
    values, inverse, counts = np.unique(
        _host(self), return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    return _unique(self, values, inverse.reshape(-1), counts, True, True)


@lowering("aten::unique_consecutive", host_shape=True)
def unique_consecutive(
    self: Array,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> _Unique:
    if dim is not None:
        return unique_dim_consecutive(self, dim, return_inverse, return_counts)
    values, inverse, counts = _runs(_host(self).reshape(-1), 0)
    inverse = inverse.reshape(self.shape)
    return _unique(self, values, inverse, counts, return_inverse, return_counts)


@lowering("aten::unique_dim_consecutive", host_shape=True)
def unique_dim_consecutive(
    self: Array, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> _Unique:
    values, inverse, counts = _runs(_host(self), dim)
    return _unique(self, values, inverse, counts, True, True)


def _host(x: Array) -> np.ndarray:
    return np.asarray(x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x)


def _runs(x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = np.moveaxis(x, dim, 0)
    if len(rows) == 0:
        return x, np.zeros(0, np.int64), np.zeros(0, np.int64)
    changes = np.any(rows[1:] != rows[:-1], axis=tuple(range(1, rows.ndim)))
    starts = np.concatenate([[0], np.nonzero(changes)[0] + 1])
    counts = np.diff(np.concatenate([starts, [len(rows)]]))
    inverse = np.repeat(np.arange(len(starts)), counts)
    return np.moveaxis(rows[starts], 0, dim), inverse, counts


def _unique(
    self: Array,
    values: np.ndarray,
    inverse: np.ndarray,
    counts: np.ndarray,
    with_inverse: bool,
    with_counts: bool,
) -> _Unique:
    nothing = jnp.zeros(0, jnp.int64)
    return (
        jnp.asarray(values).astype(self.dtype),
        jnp.asarray(inverse, jnp.int64) if with_inverse else nothing,
        jnp.asarray(counts, jnp.int64) if with_counts else nothing,
    )
