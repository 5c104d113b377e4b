# SPDX-License-Identifier: Apache-2.0
"""Elementwise losses and their gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath, scalar
from torch_google.tpu.lowerings.table import lowering

NONE, MEAN, SUM = 0, 1, 2  # the values of torch's at::Reduction


def reduced(loss: jax.Array, reduction: int) -> jax.Array:
    if reduction == MEAN:
        return loss.mean()
    return loss.sum() if reduction == SUM else loss


def unreduced(grad: jax.Array, count: int, reduction: int) -> jax.Array:
    """Return the gradient of each of the `count` losses, given their reduction's gradient."""
    return opmath(grad) / count if reduction == MEAN else opmath(grad)


@lowering("aten::mse_loss")
def mse_loss(x: jax.Array, target: jax.Array, reduction: int = MEAN) -> jax.Array:
    return reduced(jnp.square(opmath(x) - opmath(target)), reduction)


@lowering("aten::mse_loss_backward")
def mse_loss_backward(grad: jax.Array, x: jax.Array, target: jax.Array, reduction: int) -> Any:
    difference = opmath(x) - opmath(target)
    return 2 * difference * unreduced(grad, difference.size, reduction)


@lowering("aten::smooth_l1_loss")
def smooth_l1_loss(
    x: jax.Array, target: jax.Array, reduction: int = MEAN, beta: Any = 1.0
) -> jax.Array:
    z = jnp.abs(opmath(x) - opmath(target))
    b = jnp.asarray(beta).astype(z.dtype)
    # If beta is 0, the loss is the absolute error, because no error is below beta.
    safe = jnp.where(b > 0, b, 1)
    return reduced(jnp.where(z < b, 0.5 * z * z / safe, z - 0.5 * b), reduction)


@lowering("aten::smooth_l1_loss_backward")
def smooth_l1_loss_backward(
    grad: jax.Array, x: jax.Array, target: jax.Array, reduction: int, beta: Any
) -> jax.Array:
    z = opmath(x) - opmath(target)
    b = jnp.asarray(beta).astype(z.dtype)
    inner = z / jnp.where(b > 0, b, 1)
    slope = jnp.where(z <= -b, -1, jnp.where(z >= b, 1, inner))
    return slope * unreduced(grad, z.size, reduction)


@lowering("aten::huber_loss")
def huber_loss(
    x: jax.Array, target: jax.Array, reduction: int = MEAN, delta: Any = 1.0
) -> jax.Array:
    z = jnp.abs(opmath(x) - opmath(target))
    d = scalar(delta, z)
    return reduced(jnp.where(z <= d, 0.5 * z * z, d * (z - 0.5 * d)), reduction)


@lowering("aten::huber_loss_backward")
def huber_loss_backward(
    grad: jax.Array, x: jax.Array, target: jax.Array, reduction: int, delta: Any
) -> jax.Array:
    z = opmath(x) - opmath(target)
    d = jnp.asarray(delta).astype(z.dtype)
    return jnp.clip(z, -d, d) * unreduced(grad, z.size, reduction)


@lowering("aten::binary_cross_entropy")
def binary_cross_entropy(
    x: jax.Array, target: jax.Array, weight: jax.Array | None = None, reduction: int = MEAN
) -> jax.Array:
    x, target = opmath(x), opmath(target)
    # Like torch, bound each logarithm, so that a confident but wrong prediction has a loss of 100
    # instead of infinity.
    log_x, log_rest = jnp.maximum(jnp.log(x), -100), jnp.maximum(jnp.log1p(-x), -100)
    loss = (target - 1) * log_rest - target * log_x
    return reduced(loss if weight is None else loss * opmath(weight), reduction)


@lowering("aten::binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad: jax.Array,
    x: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    reduction: int = MEAN,
) -> jax.Array:
    x, target = opmath(x), opmath(target)
    slope = (x - target) / jnp.maximum((1 - x) * x, 1e-12)
    slope = slope if weight is None else slope * opmath(weight)
    return slope * unreduced(grad, x.size, reduction)


@lowering("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    x: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    pos_weight: jax.Array | None = None,
    reduction: int = MEAN,
) -> jax.Array:
    x, target = opmath(x), opmath(target)
    log_sigmoid = -(jnp.maximum(-x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x))))
    factor = 1 if pos_weight is None else (opmath(pos_weight) - 1) * target + 1
    loss = (1 - target) * x - factor * log_sigmoid
    return reduced(loss if weight is None else loss * opmath(weight), reduction)


@lowering("aten::soft_margin_loss")
def soft_margin_loss(x: jax.Array, target: jax.Array, reduction: int = MEAN) -> jax.Array:
    z = -opmath(x) * opmath(target)
    return reduced(jnp.maximum(z, 0) + jnp.log1p(jnp.exp(-jnp.abs(z))), reduction)


@lowering("aten::soft_margin_loss_backward")
def soft_margin_loss_backward(
    grad: jax.Array, x: jax.Array, target: jax.Array, reduction: int
) -> jax.Array:
    x, target = opmath(x), opmath(target)
    return -target * jax.nn.sigmoid(-x * target) * unreduced(grad, x.size, reduction)
