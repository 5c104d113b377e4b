# SPDX-License-Identifier: Apache-2.0
"""Reads and updates strided views of an immutable array, mostly by slices and transposes.

The array represents a storage, and contains the storage's elements in row-major order. A view has
torch's sizes, strides and offset, in elements. Elements are gathered or scattered by index only if
the strides do not nest, as in overlapping windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu import dtypes


@dataclass(frozen=True)
class View:
    """A tensor's view of a storage. `conj` and `neg` are torch's lazy conj and neg bits."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    conj: bool = False
    neg: bool = False

    @staticmethod
    def of(tensor: torch.Tensor) -> View:
        """Return a tensor's view of its storage."""
        return View(
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
            tensor.is_conj(),
            tensor.is_neg(),
        )

    def bits(self, values: jax.Array) -> jax.Array:
        """Apply the lazy conj and neg bits. Applying them twice restores the original values."""
        values = jnp.conj(values) if self.conj else values
        return -values if self.neg else values


@dataclass(frozen=True)
class Natural:
    """The layout of a new tensor's array.

    `order` lists the tensor's dimensions from the outermost to the innermost in memory, and `shape`
    their sizes in that order. `strides` has the strides in the tensor's own order of dimensions.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]


def natural(sizes: Sequence[int], strides: Sequence[int]) -> Natural:
    """Return the layout of a new tensor's array.

    Strides with gaps or overlaps are replaced with contiguous ones, unless the tensor is empty.
    """
    if 0 in sizes:
        return Natural(tuple(sizes), tuple(strides), tuple(range(len(sizes))))
    order = _by_stride(sizes, strides)
    step = 1
    for dimension in reversed(order):
        if sizes[dimension] != 1 and strides[dimension] != step:
            return natural(sizes, contiguous(sizes))
        step *= max(sizes[dimension], 1)
    return Natural(tuple(sizes[d] for d in order), tuple(strides), order)


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


def read(base: jax.Array, view: View) -> jax.Array:
    """Return a view's values, in the view's shape."""
    return view.bits(_stored(base, view))


def write(base: jax.Array, values: jax.Array, view: View) -> jax.Array:
    """Return the storage `base` with a view's elements replaced. The result has base's shape."""
    sizes = view.sizes
    if 0 in sizes:
        return base
    values = view.bits(jnp.broadcast_to(values, sizes))
    converted = _as_dtype(base, view.dtype)
    if is_plain(converted.shape, view):
        return _ended(values, base)
    dims = [d for d, size in enumerate(sizes) if size > 1]
    grid = _grid([sizes[d] for d in dims], [view.strides[d] for d in dims], view.offset)
    if grid is None:
        flat = converted.reshape(-1).at[_indices(view, sizes)].set(values)
    else:
        block = values.reshape([sizes[d] for d in dims]).transpose(grid.order)
        covered = math.prod(sizes) == converted.size
        flat = block.reshape(-1) if covered else _replaced(converted, block, grid, view)
    return _ended(flat, base)


def is_plain(shape: Sequence[int], view: View) -> bool:
    """Return whether a view is the whole array, with the same shape and element order."""
    if tuple(shape) != view.sizes or view.offset:
        return False
    return all(
        size == 1 or stride == expected
        for size, stride, expected in zip(
            view.sizes, view.strides, contiguous(view.sizes), strict=True
        )
    )


def covers(view: View, elements: int) -> bool:
    """Return whether a view covers all elements of a storage, so a write leaves no old values."""
    if math.prod(view.sizes) != elements:
        return False
    dims = [d for d, size in enumerate(view.sizes) if size > 1]
    grid = _grid([view.sizes[d] for d in dims], [view.strides[d] for d in dims], view.offset)
    return grid is not None


def _stored(base: jax.Array, view: View) -> jax.Array:
    sizes = view.sizes
    base = _as_dtype(base, view.dtype)
    if is_plain(base.shape, view):
        return base
    if 0 in sizes:
        return jnp.zeros(sizes, base.dtype)
    flat = base.reshape(-1)
    dims = [d for d, size in enumerate(sizes) if size > 1 and view.strides[d] != 0]
    grid = _grid([sizes[d] for d in dims], [view.strides[d] for d in dims], view.offset)
    if grid is None:
        values = flat[_indices(view, [1 if d not in dims else s for d, s in enumerate(sizes)])]
    else:
        values = jax.lax.slice(
            _pad(flat, grid.rows * grid.width)[: grid.rows * grid.width].reshape(grid.shape),
            grid.starts,
            [start + size for start, size in zip(grid.starts, grid.sizes, strict=True)],
        )
        values = values.reshape([sizes[dims[d]] for d in grid.order])
        values = values.transpose(_inverse(grid.order))
        values = values.reshape([1 if d not in dims else s for d, s in enumerate(sizes)])
    return jnp.broadcast_to(values, sizes)


@dataclass(frozen=True)
class _Grid:
    """A view, represented as a block in a grid of elements.

    `shape` contains the sizes of the grid, and `rows` is the first of them. `order` sorts the
    dimensions of the view by stride. The last size of the grid is the distance between adjacent
    elements of the view.
    """

    rows: int
    width: int
    shape: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    def merged(self) -> _Grid:
        """Return a grid with fewer dimensions for the same block.

        A dimension that the block covers completely is merged into the preceding one. The block's
        dimensions must be in the order of the grid.
        """
        shape, starts, sizes = ([axis[0]] for axis in (self.shape, self.starts, self.sizes))
        for extent, start, size in zip(
            self.shape[1:], self.starts[1:], self.sizes[1:], strict=True
        ):
            if size == extent:
                for axis in (shape, starts, sizes):
                    axis[-1] *= extent
            else:
                shape.append(extent)
                starts.append(start)
                sizes.append(size)
        width = math.prod(shape[1:])
        order = tuple(range(len(shape)))
        return _Grid(shape[0], width, tuple(shape), tuple(starts), tuple(sizes), order)


def _grid(sizes: Sequence[int], strides: Sequence[int], offset: int) -> _Grid | None:
    """Return the grid for a view, or None if the strides do not nest."""
    order = _by_stride(sizes, strides)
    steps = [strides[d] for d in order]
    if 0 in steps:
        return None
    if not order:
        return _Grid(offset + 1, 1, (offset + 1, 1), (offset, 0), (1, 1), ())
    starts = []
    rest = offset
    for step in steps:
        starts.append(rest // step)
        rest %= step
    shape = [starts[0] + sizes[order[0]]]
    for position in range(1, len(steps)):
        if steps[position - 1] % steps[position]:
            return None
        shape.append(steps[position - 1] // steps[position])
        if starts[position] + sizes[order[position]] > shape[-1]:
            return None
    return _Grid(
        shape[0],
        steps[0],
        (*shape, steps[-1]),
        (*starts, rest),
        (*(sizes[d] for d in order), 1),
        order,
    )


def _replaced(base: jax.Array, block: jax.Array, grid: _Grid, view: View) -> jax.Array:
    """Return `base` with a view's elements replaced. The result may be flat.

    `block` contains the new elements in the order of their addresses. If possible, the update keeps
    the shape of `base`: a donated array can then be updated in place, and a TPU does not have to
    change its layout.
    """
    region = _region(base.shape, view)
    if region is not None:
        starts, sizes = region
        return jax.lax.dynamic_update_slice(base, block.reshape(sizes), starts)
    if base.size % grid.width:
        grid = grid.merged()
    rows = max(grid.rows, -(-base.size // grid.width))
    padded = _pad(base.reshape(-1), rows * grid.width).reshape([rows, *grid.shape[1:]])
    updated = jax.lax.dynamic_update_slice(padded, block.reshape(grid.sizes), grid.starts)
    return updated.reshape(-1)[: base.size]


def _region(shape: Sequence[int], view: View) -> tuple[list[int], list[int]] | None:
    """Return the starts and sizes of the part of an array that a view covers.

    Returns None if that part is not a rectangle without gaps in an array of this shape.
    """
    steps = contiguous(shape)
    axes = {step: axis for axis, step in enumerate(steps) if shape[axis] > 1}
    starts, rest = [], view.offset
    for step in steps:
        starts.append(rest // step)
        rest %= step
    sizes = [1] * len(shape)
    axis = -1
    for d in reversed(_by_stride(view.sizes, view.strides)):
        size, step = view.sizes[d], view.strides[d]
        if size == 1:
            continue
        if step in axes:
            axis = axes[step]
            sizes[axis] = size
        elif axis >= 0 and step == steps[axis] * sizes[axis]:
            sizes[axis] *= size  # the axis is split into several dimensions of the view
        else:
            return None
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    return (starts, sizes) if all(e <= s for e, s in zip(ends, shape, strict=True)) else None


def _by_stride(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(sizes)), key=lambda d: (-strides[d], d)))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _pad(flat: jax.Array, size: int) -> jax.Array:
    return jnp.pad(flat, (0, size - flat.size)) if size > flat.size else flat


def _indices(view: View, sizes: Sequence[int]) -> np.ndarray:
    indices = np.full((), view.offset, np.int64)
    for size, stride in zip(sizes, view.strides, strict=True):
        indices = indices[..., None] + np.arange(size, dtype=np.int64) * stride
    return indices


def _ended(values: jax.Array, base: jax.Array) -> jax.Array:
    """Return `values` with the dtype and shape of `base`.

    If `values` has too few elements, the last ones are copied from `base`.
    """
    flat = _as_dtype(values, dtypes.to_torch(base.dtype)).reshape(-1)
    if flat.size < base.size:
        flat = jnp.concatenate([flat, base.reshape(-1)[flat.size :]])
    return flat.reshape(base.shape)


def _as_dtype(array: jax.Array, dtype: torch.dtype) -> jax.Array:
    """Reinterpret an array's bytes as `dtype`. The result is flat if the dtype changes.

    An incomplete last element is dropped.
    """
    target = dtypes.to_jax(dtype)
    if array.dtype == target:
        return array
    flat = array.reshape(-1)
    if flat.dtype == jnp.bool_:
        flat = flat.astype(jnp.uint8)
    elif jnp.iscomplexobj(flat):
        flat = jnp.stack([flat.real, flat.imag], -1).reshape(-1)
    via = _parts(target)
    if flat.dtype != via:
        ratio = via.itemsize / flat.dtype.itemsize
        if ratio > 1:
            usable = flat.size // int(ratio) * int(ratio)
            flat = flat[:usable].reshape(-1, int(ratio))
        flat = jax.lax.bitcast_convert_type(flat, via).reshape(-1)
    if target == jnp.bool_:
        return flat != 0
    if target.kind == "c":
        flat = flat[: flat.size // 2 * 2]
        return jax.lax.complex(flat[0::2], flat[1::2])
    return flat


def _parts(dtype: np.dtype) -> np.dtype:
    if dtype == np.bool_:
        return np.dtype(np.uint8)
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return dtype
