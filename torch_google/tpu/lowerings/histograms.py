# SPDX-License-Identifier: Apache-2.0
"""Operators that count values in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from torch_google.tpu.lowerings.promotion import Array, Real, floats
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::histc")
def histc(self: Array, bins: int = 100, min: Real = 0, max: Real = 0) -> Array:  # noqa: A002
    """Count values in bins of equal width from min to max, inclusive.

    If min and max are equal, the range of the data is used. Integers are counted with integer
    arithmetic, as on CUDA. torch has no CPU kernel for them.
    """
    if not jnp.issubdtype(self.dtype, jnp.floating):
        return _histc_of_integers(self.reshape(-1).astype(jnp.int64), bins, min, max)
    (x,) = floats(self)
    flat = x.reshape(-1)
    low, high = _widened(flat, float(min), float(max))
    # Multiply before dividing, as torch does, so that integers fall exactly on bin edges. Hide from
    # XLA that the divisor is constant, because XLA would multiply by its reciprocal.
    span = jnp.where(jnp.isnan(flat), jnp.nan, high - low)
    slots = jnp.floor((flat - low) * bins / span)
    slots = jnp.minimum(jnp.where(jnp.isnan(slots), 0, slots), bins - 1).astype(jnp.int32)
    inside = (flat >= low) & (flat <= high)
    return jnp.zeros(bins, x.dtype).at[jnp.where(inside, slots, bins)].add(1, mode="drop")


def _histc_of_integers(flat: Array, bins: int, least: Real, most: Real) -> Array:
    low, high = _widened(flat, least, most)
    slots = jnp.minimum((flat - low) * bins // (high - low), bins - 1)
    inside = (flat >= low) & (flat <= high)
    return jnp.zeros(bins, flat.dtype).at[jnp.where(inside, slots, bins)].add(1, mode="drop")


def _widened(flat: Array, low: Real, high: Real) -> tuple[Array, Array]:
    first, last = jnp.asarray(low, flat.dtype), jnp.asarray(high, flat.dtype)
    if low == high and flat.size:
        first, last = jnp.min(flat), jnp.max(flat)
    same = first == last
    return jnp.where(same, first - 1, first), jnp.where(same, last + 1, last)


@lowering("aten::bincount", host_shape=True)
def bincount(self: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    values = np.asarray(self)
    if values.ndim != 1 or (values.size and np.min(values) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != values.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    length = max(int(np.max(values)) + 1 if values.size else 0, minlength)
    # JAX converts the length to the dtype of the indices, which may be too narrow to represent it.
    places = self.astype(jnp.int64)
    if weights is None:
        return jnp.zeros(length, jnp.int64).at[places].add(1)
    dtype = jnp.float32 if weights.dtype == jnp.float32 else jnp.float64
    return jnp.zeros(length, dtype).at[places].add(weights.astype(dtype))


@lowering("aten::histogram.bin_ct")
def histogram(
    self: Array,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,  # noqa: A002 (the schema's name)
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    edges = _edges(self.reshape(-1), bins, range)
    counts = _counted(self.reshape(-1, 1), (edges,), weight, density)
    return counts, edges


@lowering("aten::histogram.bins_tensor")
def histogram_of_bins(
    self: Array, bins: Array, *, weight: Array | None = None, density: bool = False
) -> tuple[Array, Array]:
    return _counted(self.reshape(-1, 1), (bins,), weight, density), bins


@lowering("aten::_histogramdd_bin_edges")
def histogramdd_bin_edges(
    self: Array,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002 (the schema's name)
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, ...]:
    flat = self.reshape(-1, self.shape[-1])
    spans = [None if range is None else range[2 * axis : 2 * axis + 2] for axis in _indices(bins)]
    return tuple(_edges(flat[:, axis], bins[axis], spans[axis]) for axis in _indices(bins))


@lowering("aten::_histogramdd_from_bin_cts")
def histogramdd_from_bin_cts(
    self: Array,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002 (the schema's name)
    weight: Array | None = None,
    density: bool = False,
) -> Array:
    edges = histogramdd_bin_edges(self, bins, range=range)
    return _counted(self.reshape(-1, self.shape[-1]), edges, weight, density)


@lowering("aten::_histogramdd_from_bin_tensors")
def histogramdd_from_bin_tensors(
    self: Array, bins: Sequence[Array], *, weight: Array | None = None, density: bool = False
) -> Array:
    return _counted(self.reshape(-1, self.shape[-1]), tuple(bins), weight, density)


def _indices(items: Sequence[object]) -> range:
    return range(len(items))


def _edges(column: Array, bins: int, span: Sequence[float] | None) -> Array:
    if span is not None:
        low, high = jnp.asarray(span[0], column.dtype), jnp.asarray(span[1], column.dtype)
    elif column.size:
        low, high = jnp.min(column), jnp.max(column)
    else:
        low, high = jnp.zeros((), column.dtype), jnp.ones((), column.dtype)
    same = low == high
    return jnp.linspace(
        jnp.where(same, low - 0.5, low),
        jnp.where(same, high + 0.5, high),
        bins + 1,
        dtype=column.dtype,
    )


def _counted(points: Array, edges: tuple[Array, ...], weight: Array | None, density: bool) -> Array:
    shape = tuple(edge.shape[0] - 1 for edge in edges)
    inside = jnp.ones(points.shape[0], jnp.bool_)
    cell = jnp.zeros(points.shape[0], jnp.int32)
    for axis, edge in enumerate(edges):
        column = points[:, axis]
        inside &= (column >= edge[0]) & (column <= edge[-1])
        slot = jnp.searchsorted(edge, column, side="right") - 1
        cell = cell * shape[axis] + jnp.clip(slot, 0, shape[axis] - 1).astype(jnp.int32)
    amount = jnp.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    total = math.prod(shape)
    target = jnp.where(inside, cell, total)
    counts = jnp.zeros(total, points.dtype).at[target].add(amount, mode="drop").reshape(shape)
    if density:
        counts = counts / jnp.sum(counts)
        for axis, edge in enumerate(edges):
            width = jnp.diff(edge)
            counts = counts / width.reshape([-1 if i == axis else 1 for i in _indices(edges)])
    return counts
