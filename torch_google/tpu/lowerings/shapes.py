# SPDX-License-Identifier: Apache-2.0
"""Views with their copying, gradient and scatter variants; concatenation, flips and diagonals.

Arrays have no strides, so a view is a new array, and as_strided assumes that its input is
contiguous with offset 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from torch_google.tpu.dtypes import to_jax, to_torch
from torch_google.tpu.lowerings.promotion import Array, common, convert
from torch_google.tpu.lowerings.table import lowering


@lowering(
    "aten::_lazy_clone",
    "aten::alias",
    "aten::alias_copy",
    "aten::clone",
    "aten::detach",
    "aten::detach_copy",
    "aten::lift",
    "aten::lift_fresh",
    "aten::lift_fresh_copy",
    "aten::contiguous",
    "aten::resolve_conj",
    "aten::resolve_neg",
)
def same(self: Array) -> Array:
    return self


@lowering("aten::_neg_view", "aten::_neg_view_copy")
def negative(self: Array) -> Array:
    return -self


@lowering("aten::_to_copy")
def to_copy(self: Array, *, dtype: torch.dtype | None = None) -> Array:
    return self if dtype is None else convert(self, dtype)


@lowering("prims::convert_element_type")
def convert_element_type(a: Array, dtype: torch.dtype) -> Array:
    return convert(a, dtype)


@lowering("aten::copy")
def copy(self: Array, src: Array) -> Array:
    return jnp.broadcast_to(convert(src, to_torch(self.dtype)), self.shape)


@lowering(
    "aten::view",
    "aten::view_copy",
    "aten::_unsafe_view",
    "aten::reshape",
    "aten::_reshape_copy",
)
def view(self: Array, size: Sequence[int]) -> Array:
    return self.reshape(tuple(size))


@lowering("aten::_reshape_alias", "aten::_reshape_alias_copy")
def reshape_alias(self: Array, size: Sequence[int], stride: Sequence[int]) -> Array:
    return self.reshape(tuple(size))


@lowering("aten::view.dtype", "aten::view_copy.dtype")
def view_dtype(self: Array, dtype: torch.dtype) -> Array:
    """Reinterpret the bits. The last dimension grows or shrinks by the ratio of element sizes."""
    target = to_jax(dtype)
    if jnp.issubdtype(self.dtype, jnp.complexfloating):
        self = view_as_real(self).reshape(*self.shape[:-1], 2 * math.prod(self.shape[-1:]))
    if jnp.issubdtype(target, jnp.complexfloating):
        part = jnp.float32 if target.itemsize == 8 else jnp.float64
        pairs = _bitcast(self, np.dtype(part))
        return view_as_complex(pairs.reshape(*pairs.shape[:-1], pairs.shape[-1] // 2, 2))
    return _bitcast(self, target)


def _bitcast(x: Array, target: np.dtype) -> Array:
    if x.dtype == jnp.bool_:
        x = x.astype(jnp.uint8)
    if target == np.bool_:
        return _bitcast(x, np.dtype(np.uint8)) != 0
    have, want = x.dtype.itemsize, target.itemsize
    if have < want:
        ratio = want // have
        x = x.reshape(*x.shape[:-1], x.shape[-1] // ratio, ratio)
    cast = lax.bitcast_convert_type(x, target)
    return cast.reshape(*cast.shape[:-2], math.prod(cast.shape[-2:])) if have > want else cast


@lowering("aten::view_as_real", "aten::view_as_real_copy")
def view_as_real(self: Array) -> Array:
    return jnp.stack([self.real, self.imag], axis=-1)


@lowering("aten::view_as_complex", "aten::view_as_complex_copy")
def view_as_complex(self: Array) -> Array:
    return lax.complex(self[..., 0], self[..., 1])


@lowering("aten::expand", "aten::expand_copy")
def expand(self: Array, size: Sequence[int], *, implicit: bool = False) -> Array:
    lead = len(size) - self.ndim
    shape = [
        self.shape[axis - lead] if length == -1 else length for axis, length in enumerate(size)
    ]
    return jnp.broadcast_to(self, shape)


@lowering("aten::permute", "aten::permute_copy")
def permute(self: Array, dims: Sequence[int]) -> Array:
    return jnp.transpose(self, tuple(dims))


@lowering("aten::transpose.int", "aten::transpose_copy.int")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    return jnp.swapaxes(self, dim0, dim1) if self.ndim else self


@lowering("aten::t", "aten::t_copy")
def t(self: Array) -> Array:
    return self.T if self.ndim == 2 else self


@lowering("aten::unsqueeze", "aten::unsqueeze_copy")
def unsqueeze(self: Array, dim: int) -> Array:
    return jnp.expand_dims(self, dim)


@lowering("aten::squeeze", "aten::squeeze_copy")
def squeeze(self: Array) -> Array:
    return jnp.squeeze(self)


@lowering("aten::squeeze.dim", "aten::squeeze_copy.dim")
def squeeze_dim(self: Array, dim: int) -> Array:
    return squeeze_dims(self, (dim,))


@lowering("aten::squeeze.dims", "aten::squeeze_copy.dims")
def squeeze_dims(self: Array, dim: Sequence[int]) -> Array:
    if self.ndim == 0:
        return self
    single = {axis % self.ndim for axis in dim if self.shape[axis] == 1}
    return jnp.squeeze(self, tuple(sorted(single)))


def bounds(length: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Return the bounds of a slice, clamped to the dimension as in Python."""
    first, last, _ = slice(start, end).indices(length)
    return first, max(first, last)


@lowering("aten::slice.Tensor", "aten::slice_copy.Tensor")
def slice_(
    self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    first, last = bounds(self.shape[dim], start, end)
    return lax.slice_in_dim(self, first, last, step, axis=dim)


@lowering("aten::narrow_copy")
def narrow_copy(self: Array, dim: int, start: int, length: int) -> Array:
    first = start + self.shape[dim] if start < 0 else start
    return lax.slice_in_dim(self, first, first + length, axis=dim)


@lowering("aten::select.int", "aten::select_copy.int")
def select(self: Array, dim: int, index: int) -> Array:
    return lax.index_in_dim(self, index, axis=dim, keepdims=False)


@lowering("aten::slice_scatter")
def slice_scatter(
    self: Array,
    src: Array,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Array:
    values = convert(src, to_torch(self.dtype))
    return self.at[_along(self, dim, slice(start, end, step))].set(values)


@lowering("aten::select_scatter")
def select_scatter(self: Array, src: Array, dim: int, index: int) -> Array:
    return self.at[_along(self, dim, index)].set(convert(src, to_torch(self.dtype)))


def _along(x: Array, dim: int, item: object) -> tuple[object, ...]:
    return (*[slice(None)] * (dim % x.ndim), item)


@lowering("aten::slice_backward")
def slice_backward(
    grad_output: Array, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Array:
    zeros = jnp.zeros(tuple(input_sizes), grad_output.dtype)
    return slice_scatter(zeros, grad_output, dim, start, end, step)


@lowering("aten::select_backward")
def select_backward(grad_output: Array, input_sizes: Sequence[int], dim: int, index: int) -> Array:
    zeros = jnp.zeros(tuple(input_sizes), grad_output.dtype)
    return select_scatter(zeros, grad_output, dim, index)


@lowering(
    "aten::split_with_sizes",
    "aten::split_with_sizes_copy",
    "aten::unsafe_split_with_sizes",
    "aten::split.sizes",
)
def split_with_sizes(self: Array, split_sizes: Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    ends = np.cumsum(np.asarray(split_sizes, np.int64))
    return tuple(
        lax.slice_in_dim(self, int(end) - size, int(end), axis=dim)
        for end, size in zip(ends, split_sizes, strict=True)
    )


@lowering("aten::split.Tensor", "aten::split_copy.Tensor", "aten::unsafe_split.Tensor")
def split(self: Array, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    length = self.shape[dim]
    if split_size == 0:
        return (self,)
    pieces = max(math.ceil(length / split_size), 1)
    sizes = [min(split_size, length - index * split_size) for index in range(pieces)]
    return split_with_sizes(self, sizes, dim)


@lowering("aten::unbind.int", "aten::unbind_copy.int")
def unbind(self: Array, dim: int = 0) -> tuple[Array, ...]:
    return tuple(select(self, dim, index) for index in range(self.shape[dim]))


def _joined(tensors: Sequence[Array]) -> tuple[Array, ...]:
    return common(*tensors)


@lowering("aten::cat", "aten::concat")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Concatenate tensors. Empty one-dimensional ones affect only the dtype."""
    parts = _joined(tensors)
    nonempty = [part for part in parts if part.shape != (0,)]
    return jnp.concatenate(nonempty, axis=dim) if nonempty else parts[0]


@lowering("aten::stack")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    return jnp.stack(_joined(tensors), axis=dim)


@lowering("aten::repeat")
def repeat(self: Array, repeats: Sequence[int]) -> Array:
    return jnp.tile(self, tuple(repeats))


@lowering("aten::flip")
def flip(self: Array, dims: Sequence[int]) -> Array:
    return jnp.flip(self, tuple(dims)) if self.ndim else self


@lowering("aten::roll")
def roll(self: Array, shifts: Sequence[int] | int, dims: Sequence[int] | int = ()) -> Array:
    by = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    over = (dims,) if isinstance(dims, int) else tuple(dims)
    if self.size == 0 or self.ndim == 0:
        return self
    return jnp.roll(self, by, over) if over else jnp.roll(self, by[0])


@lowering("aten::tril")
def tril(self: Array, diagonal: int = 0) -> Array:
    return jnp.tril(self, diagonal)


@lowering("aten::triu")
def triu(self: Array, diagonal: int = 0) -> Array:
    return jnp.triu(self, diagonal)


@lowering("aten::diagonal", "aten::diagonal_copy")
def diagonal(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return jnp.diagonal(self, offset, dim1, dim2)


@lowering("aten::diagonal_scatter")
def diagonal_scatter(
    self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Array:
    last = jnp.moveaxis(self, (dim1, dim2), (-2, -1))
    rows, columns = _diagonal(src.shape[-1], offset)
    return jnp.moveaxis(last.at[..., rows, columns].set(src), (-2, -1), (dim1, dim2))


@lowering("aten::diagonal_backward")
def diagonal_backward(
    grad_output: Array, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> Array:
    zeros = jnp.zeros(tuple(input_sizes), grad_output.dtype)
    return diagonal_scatter(zeros, grad_output, offset, dim1, dim2)


@lowering("aten::diag_embed")
def diag_embed(self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    side = self.shape[-1] + abs(offset)
    rows, columns = _diagonal(self.shape[-1], offset)
    square = jnp.zeros((*self.shape[:-1], side, side), self.dtype)
    return jnp.moveaxis(square.at[..., rows, columns].set(self), (-2, -1), (dim1, dim2))


def _diagonal(length: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    along = np.arange(length)
    return along + max(-offset, 0), along + max(offset, 0)


@lowering("aten::unfold", "aten::unfold_copy")
def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    x = self.reshape(1) if self.ndim == 0 else self
    windows = jnp.take(x, _windows(x.shape[dimension], size, step), axis=dimension)
    result = jnp.moveaxis(windows, dimension % x.ndim + 1, -1)
    return result.reshape(size) if self.ndim == 0 else result


@lowering("aten::unfold_backward")
def unfold_backward(
    grad_in: Array, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> Array:
    if not input_sizes:  # a tensor without dimensions has one window, or none
        return grad_in.sum()
    axis = dim % len(input_sizes)
    grad = jnp.moveaxis(grad_in, (axis, -1), (0, 1))
    rest = [length for position, length in enumerate(input_sizes) if position != axis]
    zeros = jnp.zeros((input_sizes[axis], *rest), grad_in.dtype)
    added = zeros.at[_windows(input_sizes[axis], size, step)].add(grad)
    return jnp.moveaxis(added, 0, axis)


def _windows(length: int, size: int, step: int) -> np.ndarray:
    starts = np.arange(0, length - size + 1, step)
    return starts[:, None] + np.arange(size)[None, :]


def positions(size: Sequence[int], stride: Sequence[int], offset: int | None) -> np.ndarray:
    """Return the storage positions of all elements of a tensor with these strides."""
    places = np.full((1,) * len(size), offset or 0)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        along = [1] * len(size)
        along[axis] = length
        places = places + (np.arange(length) * step).reshape(along)
    return places


@lowering("aten::as_strided", "aten::as_strided_copy")
def as_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    return self.reshape(-1)[positions(size, stride, storage_offset)]


@lowering("aten::as_strided_scatter")
def as_strided_scatter(
    self: Array,
    src: Array,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Array:
    places = positions(size, stride, storage_offset)
    values = convert(src, to_torch(self.dtype))
    return self.reshape(-1).at[places].set(values).reshape(self.shape)


@lowering("aten::resize")
def resize(self: Array, size: Sequence[int]) -> Array:
    """Resize a tensor, preserving the first elements in order and filling the rest with zeros."""
    count = math.prod(size)
    flat = self.reshape(-1)[:count]
    return jnp.pad(flat, (0, count - flat.size)).reshape(tuple(size))
