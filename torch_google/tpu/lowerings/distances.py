# SPDX-License-Identifier: Apache-2.0
"""p-norm distances between rows, and their gradients."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::_cdist_forward")
def cdist(x1: jax.Array, x2: jax.Array, p: float, compute_mode: int | None) -> jax.Array:
    """Return distances (..., P, R) between the rows of x1 (..., P, M) and x2 (..., R, M)."""
    return _norm(opmath(x1)[..., :, None, :] - opmath(x2)[..., None, :, :], p)


@lowering("aten::_cdist_backward")
def cdist_backward(
    grad: jax.Array, x1: jax.Array, x2: jax.Array, p: float, distances: jax.Array
) -> jax.Array:
    x1, x2 = opmath(x1), opmath(x2)
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    slopes = _slope(difference, p, opmath(distances)[..., None])
    out = (slopes * opmath(grad)[..., None]).sum(-2)
    if not out.size:
        return jnp.zeros(x1.shape, out.dtype)
    return jnp.broadcast_to(out, (*out.shape[:-2], *x1.shape[-2:]))


@lowering("aten::_pdist_forward")
def pdist(x: jax.Array, p: float = 2.0) -> jax.Array:
    """Return the distance between each pair of rows, in upper-triangle order."""
    first, second = np.triu_indices(x.shape[0], 1)
    return _norm(opmath(x)[first] - opmath(x)[second], p)


@lowering("aten::_pdist_backward")
def pdist_backward(grad: jax.Array, x: jax.Array, p: float, distances: jax.Array) -> jax.Array:
    first, second = np.triu_indices(x.shape[0], 1)
    wide = opmath(x)
    slopes = _slope(wide[first] - wide[second], p, opmath(distances)[:, None])
    each = slopes * opmath(grad)[:, None]
    return jnp.zeros_like(wide).at[first].add(each).at[second].add(-each)


def _norm(difference: jax.Array, p: float) -> jax.Array:
    size = jnp.abs(difference)
    if p == 0:
        return (size != 0).sum(-1).astype(size.dtype)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return jnp.sqrt(jnp.square(size).sum(-1))
    if math.isinf(p):
        return size.max(-1, initial=0)
    return (size**p).sum(-1) ** (1 / p)


def _slope(difference: jax.Array, p: float, distance: jax.Array) -> Any:
    """Return d(norm) / d(difference), which is 0 at distance 0, as in torch."""
    sign = jnp.sign(difference)
    safe = jnp.where(distance == 0, 1, distance)
    if p == 0:
        return jnp.zeros_like(difference)
    if p == 1:
        return sign
    if math.isinf(p):
        slope = sign * (jnp.abs(difference) == distance)
    elif p == 2:
        slope = difference / safe
    elif p < 2:
        size = jnp.abs(difference)
        slope = jnp.where(size == 0, 0, sign * jnp.where(size == 0, 1, size) ** (p - 1))
        slope = slope * safe ** (1 - p)
    else:
        slope = difference * jnp.abs(difference) ** (p - 2) * safe ** (1 - p)
    return jnp.where(distance == 0, 0, slope)
