# SPDX-License-Identifier: Apache-2.0
"""Reads and writes tensors of changing sizes in storages, which are longer than the tensors need.

The functions run in a program. A storage's array is flat. Sizes, and the strides and offset of a
`StridedLayout`, are inputs of the program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets import PaddedArray, SizeScope, compacted, unpacked
from torch_google.tpu.buckets.padded_array import redim, valid
from torch_google.tpu.buckets.sizes import Dim, width
from torch_google.tpu.runtime.strides import View, natural


@dataclass(frozen=True)
class DenseLayout:
    """A tensor at the start of its storage, without gaps.

    `order` lists its dimensions from the outermost to the innermost in memory.
    """

    order: tuple[int, ...]


@dataclass(frozen=True)
class StridedLayout:
    """Any other tensor. Its elements are read and written in blocks of adjacent elements.

    If `block` is not 1, it is the size of the last dimension. The places of such a tensor are its
    offset and strides, in blocks. They are inputs of the program.
    """

    block: int


Layout = DenseLayout | StridedLayout


def layout_of(view: View, last_is_static: bool) -> tuple[Layout, tuple[int, ...]]:
    """Return the layout of a view and its places.

    `last_is_static` tells whether the size of the last dimension never changes.
    """
    layout = natural(view.sizes, view.strides)
    if not view.offset and layout.strides == view.strides:
        return DenseLayout(layout.order), ()
    places = (view.offset, *view.strides)
    if last_is_static and view.sizes and view.strides[-1] == 1:
        block = view.sizes[-1]
        if block > 1 and all(place % block == 0 for place in places[:-1]):
            return StridedLayout(block), tuple(place // block for place in places[:-1])
    return StridedLayout(1), places


def read_padded(
    scope: SizeScope, storage: jax.Array, dims: Sequence[Dim], layout: Layout, places: Sequence[Any]
) -> PaddedArray:
    """Return the values of a tensor with the dimensions `dims`. Padding has arbitrary values."""
    if isinstance(layout, DenseLayout):
        x = unpacked(scope, storage, [dims[axis] for axis in layout.order])
        back = sorted(range(len(dims)), key=layout.order.__getitem__)
        return PaddedArray(x.array.transpose(back), tuple(x.dims[axis] for axis in back))
    rows = _rows(storage, layout.block)
    positions = _positions(dims, places, storage.size)
    shape = [width(dim) for dim in dims]
    taken = jnp.take(rows, positions.reshape(-1), axis=0, mode="clip")
    return PaddedArray(taken.reshape(shape), tuple(dims))


def write_padded(
    scope: SizeScope,
    storage: jax.Array,
    values: PaddedArray,
    dims: Sequence[Dim],
    layout: Layout,
    places: Sequence[Any],
) -> jax.Array:
    """Return the storage's array with a tensor's elements replaced by `values`."""
    values = redim(scope, values, dims)
    if isinstance(layout, DenseLayout):
        flat = packed(scope, values, layout.order, storage.size)
        count = scope.count(values.dims)
        return jnp.where(jnp.arange(storage.size) < count, flat, storage)
    rows = _rows(storage, layout.block)
    positions = _positions(dims, places, storage.size)
    real = valid(scope, values, range(len(dims) - (layout.block > 1)))
    if real is not None:
        real = real.reshape(real.shape[: positions.ndim])
        positions = jnp.where(real, positions, rows.shape[0])
    updated = rows.at[positions].set(values.array, mode="drop").reshape(-1)
    return jnp.concatenate([updated, storage[updated.size :]])


def packed(scope: SizeScope, x: PaddedArray, order: Sequence[int], elements: int) -> jax.Array:
    """Return the elements of a tensor in memory order, padded or cut to the length `elements`."""
    lying = PaddedArray(x.array.transpose(order), tuple(x.dims[axis] for axis in order))
    flat = compacted(scope, lying)
    return jnp.pad(flat, (0, max(elements - flat.size, 0)))[:elements]


def _rows(storage: jax.Array, block: int) -> jax.Array:
    if block == 1:
        return storage
    return storage[: storage.size // block * block].reshape(-1, block)


def _positions(dims: Sequence[Dim], places: Sequence[Any], elements: int) -> jax.Array:
    """Return the position of each block in a storage with this many elements, in blocks."""
    shape = [width(dim) for dim in dims[: len(places) - 1]]
    kind = jnp.int32 if max(elements, math.prod(shape)) < 2**31 else jnp.int64
    positions = jnp.full(shape, jnp.asarray(places[0], kind))
    for axis, stride in enumerate(places[1:]):
        index = jax.lax.broadcasted_iota(kind, shape, axis)
        positions = positions + index * jnp.asarray(stride, kind)
    return positions
