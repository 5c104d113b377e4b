# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums, products, maxima and minima along a dimension."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import torch
from jax import lax

from torch_google.tpu.dtypes import to_torch
from torch_google.tpu.lowerings.extrema import at_least_1d
from torch_google.tpu.lowerings.pointwise_binary import log_of_sum
from torch_google.tpu.lowerings.promotion import Array, floats, rounded
from torch_google.tpu.lowerings.table import lowering


def _accumulated(self: Array, dtype: torch.dtype | None) -> Array:
    if dtype is None:
        dtype = to_torch(self.dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            dtype = torch.int64
    return rounded(at_least_1d(self), dtype)


@lowering("aten::cumsum")
def cumsum(self: Array, dim: int, *, dtype: torch.dtype | None = None) -> Array:
    x = _accumulated(self, dtype)
    return jnp.cumsum(x, axis=dim).reshape(self.shape)


@lowering("aten::cumprod")
def cumprod(self: Array, dim: int, *, dtype: torch.dtype | None = None) -> Array:
    x = _accumulated(self, dtype)
    return jnp.cumprod(x, axis=dim).reshape(self.shape)


@lowering("aten::logcumsumexp", "aten::_logcumsumexp")
def logcumsumexp(self: Array, dim: int) -> Array:
    (x,) = floats(at_least_1d(self))
    return lax.associative_scan(log_of_sum, x, axis=dim).reshape(self.shape)


@lowering("aten::cummax")
def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    """Return the running maximum, which is NaN from the first NaN on, and its last position."""
    return _extreme(self, dim, jnp.greater_equal)


@lowering("aten::cummin")
def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    """Return the running minimum, which is NaN from the first NaN on, and its last position."""
    return _extreme(self, dim, jnp.less_equal)


def _extreme(self: Array, dim: int, better: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    x = at_least_1d(self)
    axis = dim % x.ndim
    places = lax.broadcasted_iota(jnp.int64, x.shape, axis)

    def later(old: tuple[Array, Array], new: tuple[Array, Array]) -> tuple[Array, Array]:
        taken = (new[0] != new[0]) | ((old[0] == old[0]) & better(new[0], old[0]))
        return jnp.where(taken, new[0], old[0]), jnp.where(taken, new[1], old[1])

    if x.size:
        x, places = lax.associative_scan(later, (x, places), axis=axis)
    return x.reshape(self.shape), places.reshape(self.shape)
