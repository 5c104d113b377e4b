# SPDX-License-Identifier: Apache-2.0
"""Reductions: sums, products, moments, norms, any and all."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import torch
from jax import lax

from torch_google.tpu.dtypes import to_torch
from torch_google.tpu.lowerings.promotion import (
    Array,
    Scalar,
    computed,
    convert,
    floats,
    rounded,
    wide,
)
from torch_google.tpu.lowerings.table import lowering

Dims = Sequence[int] | int | None


def axes(x: Array, dim: Dims) -> tuple[int, ...]:
    """Return the axes to reduce, as non-negative indices. None or an empty `dim` means all axes."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(x.ndim))
    named = (dim,) if isinstance(dim, int) else dim
    if x.ndim == 0:
        return ()
    return tuple(sorted(axis % x.ndim for axis in named))


def _real_dtype(x: Array) -> torch.dtype:
    dtype = to_torch(x.dtype)
    return dtype.to_real() if dtype.is_complex else dtype


def _summand(self: Array, dtype: torch.dtype | None, *, round_first: bool = True) -> Array:
    """Return the terms to sum. In half precision, torch's sum rounds them first; mean does not."""
    if dtype is None:
        dtype = to_torch(self.dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            dtype = torch.int64
    return rounded(self, dtype) if round_first else convert(self, wide(dtype))


@lowering("aten::sum.dim_IntList")
def sum_dim(
    self: Array, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Array:
    return jnp.sum(_summand(self, dtype), axis=axes(self, dim), keepdims=keepdim)


@lowering("aten::sum")
def sum_all(self: Array, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.sum(_summand(self, dtype))


@lowering("aten::nansum")
def nansum(
    self: Array, dim: Dims = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Array:
    x = _summand(self, dtype)
    return jnp.sum(jnp.where(x != x, 0, x), axis=axes(self, dim), keepdims=keepdim)


@lowering("aten::mean.dim")
def mean_dim(
    self: Array, dim: Dims, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Array:
    return jnp.mean(
        _summand(self, dtype, round_first=False), axis=axes(self, dim), keepdims=keepdim
    )


@lowering("aten::mean")
def mean_all(self: Array, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.mean(_summand(self, dtype, round_first=False))


@lowering("aten::prod")
def prod_all(self: Array, *, dtype: torch.dtype | None = None) -> Array:
    return jnp.prod(_summand(self, dtype))


@lowering("aten::prod.dim_int")
def prod_dim(
    self: Array, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Array:
    return jnp.prod(_summand(self, dtype), axis=axes(self, dim), keepdims=keepdim)


def _named(x: Array, dim: Dims) -> tuple[int, ...]:
    """Return the axes of `any` or `all`. Unlike in other reductions, an empty `dim` means none."""
    nothing = dim is not None and not isinstance(dim, int) and not len(dim)
    return () if nothing else axes(x, dim)


@lowering("aten::any.dim", "aten::any.dims")
def any_dim(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return jnp.any(self != 0, axis=_named(self, dim), keepdims=keepdim)


@lowering("aten::any")
def any_all(self: Array) -> Array:
    return jnp.any(self != 0)


@lowering("aten::all.dim", "aten::all.dims")
def all_dim(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return jnp.all(self != 0, axis=_named(self, dim), keepdims=keepdim)


@lowering("aten::all")
def all_all(self: Array) -> Array:
    return jnp.all(self != 0)


@lowering("aten::count_nonzero", "aten::count_nonzero.dim_IntList")
def count_nonzero(self: Array, dim: Dims = None) -> Array:
    return jnp.sum(self != 0, axis=axes(self, dim), dtype=jnp.int64)


def _moments(
    self: Array, dim: Dims, correction: Scalar | None, keepdim: bool
) -> tuple[Array, Array]:
    (x,) = floats(self)
    over = axes(x, dim)
    count = 1
    for axis in over:
        count *= x.shape[axis]
    mean = jnp.sum(x, axis=over, keepdims=True) / jnp.asarray(count, x.dtype)
    square = jnp.sum(jnp.square(jnp.abs(x - mean)), axis=over, keepdims=keepdim)
    freedom = count - (1 if correction is None else correction)
    divisor = jnp.maximum(jnp.asarray(freedom, square.dtype), 0)
    return square / divisor, mean if keepdim else jnp.squeeze(mean, over)


@lowering("aten::var.correction")
def var_correction(
    self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> Array:
    """Return the variance with the divisor max(count - correction, 0). None means correction=1."""
    return _moments(self, dim, correction, keepdim)[0]


@lowering("aten::std.correction")
def std_correction(
    self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> Array:
    return jnp.sqrt(_moments(self, dim, correction, keepdim)[0])


@lowering("aten::var_mean.correction")
def var_mean_correction(
    self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> tuple[Array, Array]:
    return _moments(self, dim, correction, keepdim)


@lowering("aten::std_mean.correction")
def std_mean_correction(
    self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> tuple[Array, Array]:
    variance, mean = _moments(self, dim, correction, keepdim)
    return jnp.sqrt(variance), mean


@lowering("aten::var.dim")
def var_dim(self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Array:
    return _moments(self, dim, int(unbiased), keepdim)[0]


@lowering("aten::linalg_vector_norm")
def vector_norm(
    self: Array,
    ord: Scalar = 2,  # noqa: A002 (the schema's name)
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Array:
    return _norm(self, ord, dim, keepdim, dtype)


@lowering("aten::norm.ScalarOpt_dim")
def norm_dim(self: Array, p: Scalar | None, dim: Dims, keepdim: bool = False) -> Array:
    return _norm(self, 2 if p is None else p, dim, keepdim, None)


@lowering("aten::norm.ScalarOpt_dim_dtype")
def norm_dim_dtype(
    self: Array, p: Scalar | None, dim: Dims, keepdim: bool, *, dtype: torch.dtype
) -> Array:
    return _norm(self, 2 if p is None else p, dim, keepdim, dtype)


@lowering("aten::norm.Scalar")
def norm_all(self: Array, p: Scalar | None = 2) -> Array:
    return _norm(self, 2 if p is None else p, None, False, None)


@lowering("aten::norm.ScalarOpt_dtype")
def norm_all_dtype(self: Array, p: Scalar | None, *, dtype: torch.dtype) -> Array:
    return _norm(self, 2 if p is None else p, None, False, dtype)


def _norm(self: Array, order: Scalar, dim: Dims, keepdim: bool, dtype: torch.dtype | None) -> Array:
    (x,) = computed(self) if dtype is None else (convert(self, wide(dtype)),)
    size, over = jnp.abs(x), axes(x, dim)
    if order == float("inf"):
        return jnp.max(size, axis=over, keepdims=keepdim, initial=0)
    if order == float("-inf"):
        return jnp.min(size, axis=over, keepdims=keepdim)
    if order == 0:
        return jnp.sum(x != 0, axis=over, keepdims=keepdim).astype(size.dtype)
    if order == 1:
        return jnp.sum(size, axis=over, keepdims=keepdim)
    if order == 2:
        return jnp.sqrt(jnp.sum(size * size, axis=over, keepdims=keepdim))
    return jnp.sum(size**order, axis=over, keepdims=keepdim) ** (1.0 / order)


@lowering("aten::logsumexp")
def logsumexp(self: Array, dim: Dims, keepdim: bool = False) -> Array:
    (x,) = floats(self)
    return jax.nn.logsumexp(x, axis=axes(x, dim), keepdims=keepdim)


@lowering("aten::trace")
def trace(self: Array) -> Array:
    return jnp.trace(_summand(self, None))


@lowering("aten::hash_tensor")
def hash_tensor(self: Array, dim: Dims = (), *, keepdim: bool = False, mode: int = 0) -> Array:
    """Return the exclusive or of the elements' bits. Floats are first converted to float64."""
    if jnp.issubdtype(self.dtype, jnp.floating):
        bits = lax.bitcast_convert_type(self.astype(jnp.float64), jnp.uint64)
    else:
        bits = self.astype(jnp.uint64)
    over = axes(self, dim)
    result = lax.reduce(bits, jnp.uint64(0), lax.bitwise_xor, over)
    return jnp.expand_dims(result, over) if keepdim else result
