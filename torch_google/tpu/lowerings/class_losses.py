# SPDX-License-Identifier: Apache-2.0
"""Losses for classification (negative log-likelihood, margin losses) and their gradients."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.losses import MEAN, NONE, SUM, reduced
from torch_google.tpu.lowerings.opmath import opmath, scalar
from torch_google.tpu.lowerings.table import lowering

_Weight: TypeAlias = jax.Array | None


@lowering("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss(
    x: jax.Array, target: jax.Array, weight: _Weight, reduction: int, ignore_index: int
) -> tuple[jax.Array, jax.Array]:
    """Return the loss for x (C,), (N, C) or (N, C, H, W). The target's shape omits C."""
    if target.dtype not in (jnp.int64, jnp.uint8):
        raise RuntimeError(f"nll_loss: expected a target of int64 or uint8, found {target.dtype}")
    target = target.astype(jnp.int64)  # in uint8, -100 would be class 156
    if weight is not None and weight.dtype != x.dtype:
        raise RuntimeError(f"nll_loss: expected weights of {x.dtype}, found {weight.dtype}")
    wide = opmath(x)
    axis = _class_axis(x)
    weights = _weights(x, target, weight, ignore_index)
    index = jnp.where(target == ignore_index, 0, target)
    if x.shape[axis]:
        taken = jnp.take_along_axis(wide, jnp.expand_dims(index, axis), axis=axis).squeeze(axis)
    else:
        taken = jnp.zeros(target.shape, wide.dtype)
    losses = jnp.where(target == ignore_index, 0, -taken * weights)
    if reduction == NONE:
        # Without reduction, torch returns 0 as the total weight, unless x has no batch dimension.
        return losses, weights.sum() if x.ndim == 1 else jnp.zeros((), wide.dtype)
    total = weights.sum()
    return (losses.sum() if reduction == SUM else losses.sum() / total), total


@lowering("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(
    grad: jax.Array,
    x: jax.Array,
    target: jax.Array,
    weight: _Weight,
    reduction: int,
    ignore_index: int,
    total_weight: jax.Array,
) -> jax.Array:
    grad = opmath(grad)
    target = target.astype(jnp.int64)
    if reduction == MEAN:
        grad = grad / opmath(total_weight)
    weights = _weights(x, target, weight, ignore_index)
    each = jnp.where(target == ignore_index, 0, -grad * weights)
    axis = _class_axis(x)
    classes = jnp.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return jnp.where(classes == jnp.expand_dims(target, axis), jnp.expand_dims(each, axis), 0)


@lowering("aten::multi_margin_loss")
def multi_margin_loss(
    x: jax.Array,
    target: jax.Array,
    p: Any = 1,
    margin: Any = 1,
    weight: _Weight = None,
    reduction: int = MEAN,
) -> jax.Array:
    _must_be_rows(x)
    if x.ndim == 2 and target.shape != x.shape[:1]:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected size: {x.shape[0]}, but got: {list(target.shape)}"
        )
    wide = opmath(x)
    classes = x.shape[-1] if x.ndim else 1
    rows = wide if x.ndim == 2 else wide.reshape(1, classes)
    shape, target = target.shape, target.reshape(len(rows))
    own = jnp.take_along_axis(rows, target[:, None], axis=1)
    z = scalar(margin, rows) - own + rows
    cost = jnp.where(z > 0, z if _is_one(p) else z * z, 0)
    if weight is not None:
        cost = cost * opmath(weight)[target][:, None]
    others = jnp.arange(classes) != target[:, None]
    loss = jnp.where(others, cost, 0).sum(1) / classes
    return reduced(loss.reshape(shape), reduction)


@lowering("aten::multi_margin_loss_backward")
def multi_margin_loss_backward(
    grad: jax.Array,
    x: jax.Array,
    target: jax.Array,
    p: Any,
    margin: Any,
    weight: _Weight = None,
    reduction: int = MEAN,
) -> jax.Array:
    def loss(x: jax.Array) -> jax.Array:
        return multi_margin_loss(x, target, p, margin, weight, reduction)

    value, back = jax.vjp(loss, opmath(x))
    return back(opmath(grad).reshape(value.shape))[0]


@lowering("aten::multilabel_margin_loss_forward")
def multilabel_margin_loss(
    x: jax.Array, target: jax.Array, reduction: int
) -> tuple[jax.Array, jax.Array]:
    _must_be_rows(x)
    is_target = _is_target(x, target)
    return _multilabel(opmath(x), target, is_target, reduction), is_target.astype(x.dtype)


@lowering("aten::multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(
    grad: jax.Array, x: jax.Array, target: jax.Array, reduction: int, is_target: jax.Array
) -> jax.Array:
    def loss(x: jax.Array) -> jax.Array:
        return _multilabel(x, target, is_target != 0, reduction)

    value, back = jax.vjp(loss, opmath(x))
    return back(opmath(grad).reshape(value.shape))[0]


def _must_be_rows(x: jax.Array) -> None:
    if x.ndim > 2 or (x.ndim and x.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(x.shape)}"
        )


def _class_axis(x: jax.Array) -> int:
    return 0 if x.ndim == 1 else 1


def _weights(x: jax.Array, target: jax.Array, weight: _Weight, ignore_index: int) -> jax.Array:
    """Return the weight of each target, which is 0 for ignored targets."""
    ones = jnp.ones(target.shape, opmath(x).dtype)
    if weight is not None and len(weight):
        ones = opmath(weight)[jnp.where(target == ignore_index, 0, target)]
    return jnp.where(target == ignore_index, 0, ones)


def _is_one(p: Any) -> bool:
    return int(p) == 1


def _before_end(target: jax.Array) -> jax.Array:
    """Return a mask of the targets that precede the first negative target."""
    return jnp.cumprod(target >= 0, axis=-1).astype(bool)


def _is_target(x: jax.Array, target: jax.Array) -> jax.Array:
    target = target.reshape(x.shape)
    classes = jnp.arange(x.shape[-1]) if x.ndim else jnp.zeros((), int)
    if not x.ndim:
        return target >= 0
    named = (target[..., :, None] == classes) & _before_end(target)[..., :, None]
    return named.any(-2)


def _multilabel(x: jax.Array, target: jax.Array, is_target: jax.Array, reduction: int) -> jax.Array:
    rank = x.ndim
    x, target, is_target = (jnp.atleast_1d(v) for v in (x, target, is_target))
    target = target.reshape(x.shape)
    counts = _before_end(target)
    own = jnp.take_along_axis(x, jnp.where(counts, target, 0), axis=-1)
    z = 1 - own[..., :, None] + x[..., None, :]
    mask = counts[..., :, None] & ~is_target.reshape(x.shape)[..., None, :]
    loss = jnp.where(mask & (z > 0), z, 0).sum((-1, -2)) / x.shape[-1]
    return reduced(loss, reduction) if rank == 2 else loss
