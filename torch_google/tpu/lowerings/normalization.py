# SPDX-License-Identifier: Apache-2.0
"""Layer, group and RMS normalization, with float32 statistics for half precision, and gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

_Grads = tuple[jax.Array | None, jax.Array | None, jax.Array | None]


@lowering("aten::native_layer_norm")
def layer_norm(
    x: jax.Array,
    normalized_shape: Sequence[int],
    weight: jax.Array | None,
    bias: jax.Array | None,
    eps: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    x = opmath(x)
    mean, rstd = _statistics(x, tuple(range(x.ndim - len(normalized_shape), x.ndim)), eps)
    out = (x - mean) * rstd
    if weight is not None:
        out = out * opmath(weight)
    return (out if bias is None else out + opmath(bias)), mean, rstd


@lowering("aten::native_layer_norm_backward")
def layer_norm_backward(
    grad: jax.Array,
    x: jax.Array,
    normalized_shape: Sequence[int],
    mean: jax.Array,
    rstd: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    output_mask: Sequence[bool],
) -> _Grads:
    grad, x, mean, rstd = (opmath(v) for v in (grad, x, mean, rstd))
    lead = x.ndim - len(normalized_shape)
    normal = (x - mean) * rstd
    outer = tuple(range(lead))
    return (
        _normal_grad(grad, normal, rstd, weight, tuple(range(lead, x.ndim)))
        if output_mask[0]
        else None,
        (grad * normal).sum(outer) if output_mask[1] and weight is not None else None,
        grad.sum(outer) if output_mask[2] and bias is not None else None,
    )


@lowering("aten::native_group_norm")
def group_norm(
    x: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    n: int,
    c: int,
    area: int,
    group: int,
    eps: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    wide = opmath(x).reshape(n, group, c // group, area)
    mean, rstd = _statistics(wide, (2, 3), eps)
    out = (wide - mean) * rstd
    channels = (group, c // group, 1)
    if weight is not None:
        out = out * opmath(weight).reshape(channels)
    if bias is not None:
        out = out + opmath(bias).reshape(channels)
    return out.reshape(x.shape), mean.reshape(n, group), rstd.reshape(n, group)


@lowering("aten::native_group_norm_backward")
def group_norm_backward(
    grad: jax.Array,
    x: jax.Array,
    mean: jax.Array,
    rstd: jax.Array,
    weight: jax.Array | None,
    n: int,
    c: int,
    area: int,
    group: int,
    output_mask: Sequence[bool],
) -> _Grads:
    shape = (n, group, c // group, area)
    wide = opmath(grad).reshape(shape)
    rstd = opmath(rstd).reshape(n, group, 1, 1)
    normal = (opmath(x).reshape(shape) - opmath(mean).reshape(n, group, 1, 1)) * rstd
    scale = None if weight is None else weight.reshape(group, c // group, 1)
    return (
        _normal_grad(wide, normal, rstd, scale, (2, 3)).reshape(x.shape)
        if output_mask[0]
        else None,
        (wide * normal).sum((0, 3)).reshape(c) if output_mask[1] else None,
        wide.sum((0, 3)).reshape(c) if output_mask[2] else None,
    )


@lowering("aten::_fused_rms_norm")
def rms_norm(
    x: jax.Array, normalized_shape: Sequence[int], weight: jax.Array | None, eps: Any
) -> tuple[jax.Array, jax.Array]:
    if eps is None:
        eps = float(jnp.finfo(opmath(x).dtype).eps)
    wide = opmath(x)
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    rstd = jax.lax.rsqrt(jnp.square(wide).mean(axes, keepdims=True) + _same(eps, wide))
    out = wide * rstd
    return (out if weight is None else out * opmath(weight)), rstd


@lowering("aten::_fused_rms_norm_backward")
def rms_norm_backward(
    grad: jax.Array,
    x: jax.Array,
    normalized_shape: Sequence[int],
    rstd: jax.Array,
    weight: jax.Array | None,
    output_mask: Sequence[bool],
) -> tuple[jax.Array | None, jax.Array | None]:
    grad, x, rstd = opmath(grad), opmath(x), opmath(rstd)
    lead = x.ndim - len(normalized_shape)
    normal = x * rstd
    to_normal = grad if weight is None else grad * opmath(weight)
    shared = (to_normal * normal).mean(tuple(range(lead, x.ndim)), keepdims=True)
    of_weight = (grad * normal).sum(tuple(range(lead)))
    return (
        (to_normal - normal * shared) * rstd if output_mask[0] else None,
        of_weight if output_mask[1] and weight is not None else None,
    )


def _same(number: Any, like: jax.Array) -> jax.Array:
    return jnp.asarray(number).astype(like.dtype)


def _statistics(x: jax.Array, axes: tuple[int, ...], eps: Any) -> tuple[jax.Array, jax.Array]:
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    if not math.prod(x.shape[a] for a in axes):
        # For an empty input, torch returns mean 0 and variance 0.
        mean, variance = jnp.zeros_like(mean), jnp.zeros_like(variance)
    return mean, jax.lax.rsqrt(variance + _same(eps, x))


def _normal_grad(
    grad: jax.Array,
    normal: jax.Array,
    rstd: jax.Array,
    weight: jax.Array | None,
    axes: tuple[int, ...],
) -> jax.Array:
    """Return the gradient of (x - mean) * rstd with respect to x. mean and rstd depend on x."""
    if weight is not None:
        grad = grad * opmath(weight)
    mean = grad.mean(axes, keepdims=True)
    slope = (grad * normal).mean(axes, keepdims=True)
    return (grad - mean - normal * slope) * rstd
