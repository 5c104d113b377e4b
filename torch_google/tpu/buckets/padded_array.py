# SPDX-License-Identifier: Apache-2.0
"""Arrays with padding, and functions that locate, fill or remove it.

Padding may contain any value, including NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.sizes import (
    Dim,
    Extent,
    PaddingRefusal,
    SizeScope,
    is_padded,
    normal,
    width,
)


@dataclass(frozen=True)
class PaddedArray:
    """An array and its dimensions. If `uniform` is set, all elements are equal."""

    array: jax.Array
    dims: tuple[Dim, ...]
    uniform: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", normal(self.dims))
        if self.array.shape != tuple(width(dim) for dim in self.dims):
            raise PaddingRefusal(f"an array of {self.array.shape} for {self.dims}")

    @property
    def padded(self) -> bool:
        """Return whether any dimension may contain padding."""
        return any(is_padded(dim) for dim in self.dims)


def axis_of(x: PaddedArray, dim: int) -> int:
    """Normalize a dimension, which may be negative, to an axis counted from 0."""
    return dim % len(x.dims) if x.dims else 0


def place(scope: SizeScope, dim: Dim) -> tuple[jax.Array, Any]:
    """Map each index in a padded dimension to an index in the dimension without padding.

    Also return a mask of the indices that are not padding, or None if there is no padding.
    """
    return _place(scope, dim, tuple(extent.size for extent in dim))


def valid(scope: SizeScope, x: PaddedArray, axes: Iterable[int]) -> Any:
    """Return a mask of the elements that are not padding, or None if these axes have no padding.

    The mask can be broadcast to the array.
    """
    combined: Any = None
    for axis in axes:
        inside = place(scope, x.dims[axis])[1]
        if inside is not None:
            shape = [1] * len(x.dims)
            shape[axis] = width(x.dims[axis])
            mask = inside.reshape(shape)
            combined = mask if combined is None else combined & mask
    return combined


def filled(scope: SizeScope, x: PaddedArray, axes: Iterable[int], fill: Any) -> jax.Array:
    """Return the array with the padding along these axes replaced by `fill`."""
    mask = valid(scope, x, axes)
    if mask is None:
        return x.array
    return jnp.where(mask, x.array, jnp.asarray(fill, x.array.dtype))


def cleared(scope: SizeScope, x: PaddedArray) -> jax.Array:
    """Return the array with all padding replaced by zeros."""
    return filled(scope, x, range(len(x.dims)), 0)


def compacted(scope: SizeScope, x: PaddedArray) -> jax.Array:
    """Return a flat array in which all padding is at the end. The order stays row-major."""
    extents, block = _rows([extent for dim in x.dims for extent in dim])
    if not any(extent.padded for extent in extents[1:]):
        return x.array.reshape(-1)
    rows = x.array.reshape(-1, block)
    count = rows.shape[0]
    rest = jnp.arange(count, dtype=_index_type(count))
    positions = jnp.zeros_like(rest)
    stride = 1
    for extent in reversed(extents):
        real = jnp.maximum(jnp.asarray(scope.value(extent.expr), rest.dtype), 1)
        positions = positions + rest % real * stride
        rest = rest // real
        stride *= extent.size
    return jnp.take(rows, positions, axis=0, mode="clip").reshape(-1)


def unpacked(scope: SizeScope, flat: jax.Array, dims: Sequence[Dim]) -> PaddedArray:
    """Undo `compacted`: return an array with the given padded dimensions."""
    shape = tuple(width(dim) for dim in dims)
    extents, block = _rows([extent for dim in dims for extent in dim])
    size = math.prod(shape)
    if flat.size < size:
        flat = jnp.pad(flat, (0, size - flat.size))
    flat = flat[:size]
    if not any(extent.padded for extent in extents[1:]):
        return PaddedArray(flat.reshape(shape), tuple(dims))
    rows = flat.reshape(-1, block)
    positions = _place(scope, tuple(extents), tuple(extent.size for extent in extents))[0]
    taken = jnp.take(rows, positions.reshape(-1), axis=0, mode="clip")
    return PaddedArray(taken.reshape(shape), tuple(dims))


def redim(scope: SizeScope, x: PaddedArray, dims: Sequence[Dim]) -> PaddedArray:
    """Move the non-padding elements, in row-major order, to an array with different dimensions."""
    dims = normal(dims)
    if x.dims == dims:
        return x
    if x.uniform:
        shape = tuple(width(dim) for dim in dims)
        first = x.array.reshape(-1)[0] if x.array.size else jnp.zeros((), x.array.dtype)
        return PaddedArray(jnp.broadcast_to(first, shape), dims, True)
    return unpacked(scope, compacted(scope, x), dims)


def _place(
    scope: SizeScope, extents: Sequence[Extent], sizes: Sequence[int]
) -> tuple[jax.Array, Any]:
    count = math.prod(sizes)
    kind = _index_type(count)
    positions = jnp.zeros(tuple(sizes), kind)
    inside: Any = None
    stride: Any = 1
    for axis in reversed(range(len(extents))):
        extent = extents[axis]
        own = jax.lax.broadcasted_iota(kind, tuple(sizes), axis)
        positions = positions + own * stride
        real = scope.value(extent.expr)
        if extent.padded:
            real = jnp.asarray(real, kind)
            inside = own < real if inside is None else inside & (own < real)
        stride = stride * real
    return positions.reshape(-1), None if inside is None else inside.reshape(-1)


def _rows(extents: Sequence[Extent]) -> tuple[list[Extent], int]:
    """Return the extents up to the last padded one, and the product of the sizes of the others."""
    lead = list(extents)
    block = 1
    while lead and not lead[-1].padded:
        block *= lead.pop().size
    return lead, block


def _index_type(count: int) -> Any:
    return jnp.int32 if count < 2**31 else jnp.int64
