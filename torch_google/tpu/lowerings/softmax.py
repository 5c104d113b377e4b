# SPDX-License-Identifier: Apache-2.0
"""Softmax and log-softmax, their gradients, and dropout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath, scalar
from torch_google.tpu.lowerings.reductions import axes
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::_softmax")
def softmax(x: jax.Array, dim: int, half_to_float: bool) -> jax.Array:
    if not x.size:
        return jnp.ones_like(x)
    exps = jnp.exp(_shifted(x, dim))
    return exps / exps.sum(axes(x, dim), keepdims=True)


@lowering("aten::_log_softmax")
def log_softmax(x: jax.Array, dim: int, half_to_float: bool) -> jax.Array:
    if not x.size:
        return jnp.zeros_like(x)
    shifted = _shifted(x, dim)
    return shifted - jnp.log(jnp.exp(shifted).sum(axes(x, dim), keepdims=True))


@lowering("aten::_safe_softmax")
def safe_softmax(x: jax.Array, dim: int, dtype: Any = None) -> jax.Array:
    """Return the softmax, or 0 if all inputs are -inf, as in a fully masked attention row."""
    if not x.size:
        return softmax(x, dim, False)
    masked = (x == -jnp.inf).all(axes(x, dim), keepdims=True)
    return jnp.where(masked, 0, softmax(x, dim, False))


@lowering("aten::_softmax_backward_data")
def softmax_backward(grad: jax.Array, out: jax.Array, dim: int, input_dtype: Any) -> jax.Array:
    grad, out = opmath(grad), opmath(out)
    product = grad * out
    return product - out * product.sum(axes(out, dim), keepdims=True)


@lowering("aten::_log_softmax_backward_data")
def log_softmax_backward(grad: jax.Array, out: jax.Array, dim: int, input_dtype: Any) -> jax.Array:
    grad, out = opmath(grad), opmath(out)
    return grad - jnp.exp(out) * grad.sum(axes(out, dim), keepdims=True)


@lowering("aten::native_dropout", random=True)
def native_dropout(
    x: jax.Array, p: Any, train: bool | None, *, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
    if train is False:
        return x, jnp.ones(x.shape, bool)
    keep_probability = 1 - jnp.asarray(p, jnp.float64)
    mask = jax.random.uniform(key, x.shape, jnp.float32) < keep_probability.astype(jnp.float32)
    scale = jnp.where(keep_probability > 0, 1 / keep_probability, 0)
    return jnp.where(mask, opmath(x) * scalar(scale, opmath(x)), 0), mask


@lowering("aten::native_dropout_backward")
def native_dropout_backward(grad: jax.Array, mask: jax.Array, scale: Any) -> jax.Array:
    wide = grad.astype(jnp.float32) if grad.dtype == jnp.bool_ else opmath(grad)
    return wide * mask * scalar(scale, wide)


def _shifted(x: jax.Array, dim: int) -> jax.Array:
    wide = opmath(x)
    return wide - wide.max(axes(x, dim), keepdims=True)
