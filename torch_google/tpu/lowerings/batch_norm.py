# SPDX-License-Identifier: Apache-2.0
"""Batch normalization in training and inference, in all of torch's variants, and its gradient.

The functional variants return new running statistics. The schema of `aten::native_batch_norm` does
not declare that the operator mutates its running statistics. Calls with running statistics
therefore use a functional variant that this package defines,
`torch_google::native_batch_norm_functional`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath, scalar
from torch_google.tpu.lowerings.table import lowering

_MaybeArray: TypeAlias = jax.Array | None
_Three = tuple[jax.Array, jax.Array, jax.Array]


@lowering("aten::_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    x: jax.Array, weight: _MaybeArray, bias: _MaybeArray, training: bool, momentum: Any, eps: Any
) -> _Three:
    return _of_batch(x, weight, bias, eps)[:3]


@lowering("aten::_native_batch_norm_legit_no_training")
def batch_norm_inference(
    x: jax.Array,
    weight: _MaybeArray,
    bias: _MaybeArray,
    running_mean: jax.Array,
    running_var: jax.Array,
    momentum: Any,
    eps: Any,
) -> _Three:
    mean, var = opmath(running_mean), opmath(running_var)
    rstd = jax.lax.rsqrt(var + jnp.asarray(eps).astype(var.dtype))
    # In inference, torch also returns the running statistics on all devices except the CPU.
    return _scale(x, mean, rstd, weight, bias), mean, rstd


@lowering("aten::_native_batch_norm_legit_functional")
def batch_norm(
    x: jax.Array,
    weight: _MaybeArray,
    bias: _MaybeArray,
    running_mean: jax.Array,
    running_var: jax.Array,
    training: bool,
    momentum: Any,
    eps: Any,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    if not training:
        out = batch_norm_inference(x, weight, bias, running_mean, running_var, momentum, eps)
        return *out, running_mean, running_var
    out, mean, rstd, var = _of_batch(x, weight, bias, eps)
    new = _updated(running_mean, running_var, mean, var, momentum, x)
    return out, mean, rstd, *new


@lowering("aten::native_batch_norm")
def native_batch_norm(
    x: jax.Array,
    weight: _MaybeArray,
    bias: _MaybeArray,
    running_mean: _MaybeArray,
    running_var: _MaybeArray,
    training: bool,
    momentum: Any,
    eps: Any,
) -> _Three:
    if training and running_mean is not None:
        raise NotImplementedError(
            "tpu: aten::native_batch_norm changes its running statistics, which no pure function "
            "can. Call torch_google::native_batch_norm_functional, which returns them"
        )
    options = (momentum, eps)
    if training:
        return batch_norm_no_stats(x, weight, bias, training, *options)
    assert running_mean is not None
    assert running_var is not None
    return batch_norm_inference(x, weight, bias, running_mean, running_var, *options)


@lowering("torch_google::native_batch_norm_functional")
def native_batch_norm_functional(
    x: jax.Array,
    weight: _MaybeArray,
    bias: _MaybeArray,
    running_mean: _MaybeArray,
    running_var: _MaybeArray,
    training: bool,
    momentum: Any,
    eps: Any,
) -> tuple[jax.Array, ...]:
    options = (training, momentum, eps)
    if running_mean is None or running_var is None:
        nothing = jnp.zeros((0,), jnp.float32)
        return *batch_norm_no_stats(x, weight, bias, *options), nothing, nothing
    return batch_norm(x, weight, bias, running_mean, running_var, *options)


@lowering("aten::_batch_norm_with_update_functional")
def batch_norm_with_update(
    x: jax.Array,
    weight: _MaybeArray,
    bias: _MaybeArray,
    running_mean: jax.Array,
    running_var: jax.Array,
    momentum: Any,
    eps: Any,
) -> tuple[jax.Array, ...]:
    out, mean, rstd, *new = batch_norm(
        x, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return out, mean, rstd, jnp.zeros((0,), jnp.uint8), *new


@lowering("aten::_batch_norm_no_update")
def batch_norm_no_update(
    x: jax.Array,
    weight: _MaybeArray,
    bias: _MaybeArray,
    running_mean: _MaybeArray,
    running_var: _MaybeArray,
    momentum: Any,
    eps: Any,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    reserve = jnp.zeros((0,), jnp.uint8)
    if running_mean is None or running_var is None:
        return *_of_batch(x, weight, bias, eps)[:3], reserve
    stats = (running_mean, running_var)
    return *batch_norm_inference(x, weight, bias, *stats, momentum, eps), reserve


@lowering("aten::native_batch_norm_backward")
def batch_norm_backward(
    grad: jax.Array,
    x: jax.Array,
    weight: _MaybeArray,
    running_mean: _MaybeArray,
    running_var: _MaybeArray,
    save_mean: _MaybeArray,
    save_invstd: _MaybeArray,
    train: bool,
    eps: Any,
    output_mask: Sequence[bool],
) -> tuple[_MaybeArray, _MaybeArray, _MaybeArray]:
    grad, x = opmath(grad), opmath(x)
    if train:
        assert save_mean is not None
        assert save_invstd is not None
        mean, rstd = opmath(save_mean), opmath(save_invstd)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean, var = opmath(running_mean), opmath(running_var)
        rstd = jax.lax.rsqrt(var + jnp.asarray(eps).astype(var.dtype))
    axes, column = _axes(x)
    normal = (x - mean.reshape(column)) * rstd.reshape(column)
    total, slope = grad.sum(axes), (grad * normal).sum(axes)
    factor = rstd if weight is None else rstd * opmath(weight)
    to_x = grad
    if train:
        count = max(math.prod(x.shape[a] for a in axes), 1)
        to_x = grad - (total / count).reshape(column) - normal * (slope / count).reshape(column)
    return (
        to_x * factor.reshape(column) if output_mask[0] else None,
        slope if output_mask[1] else None,
        total if output_mask[2] else None,
    )


@lowering("aten::batch_norm_backward")
def batch_norm_backward_reserve(
    grad: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    running_mean: _MaybeArray,
    running_var: _MaybeArray,
    save_mean: _MaybeArray,
    save_var: _MaybeArray,
    update: bool,
    eps: Any,
    output_mask: Sequence[bool],
    reserve: jax.Array,
) -> tuple[_MaybeArray, _MaybeArray, _MaybeArray]:
    stats = (running_mean, running_var, save_mean, save_var)
    return batch_norm_backward(grad, x, weight, *stats, update, eps, output_mask)


def _axes(x: jax.Array) -> tuple[tuple[int, ...], list[int]]:
    """Return the axes to reduce, and the shape with which a per-channel vector broadcasts to x."""
    return (0, *range(2, x.ndim)), [1, -1, *[1] * (x.ndim - 2)]


def _scale(
    x: jax.Array, mean: jax.Array, rstd: jax.Array, weight: _MaybeArray, bias: _MaybeArray
) -> jax.Array:
    _, column = _axes(x)
    factor = rstd if weight is None else rstd * opmath(weight)
    out = (opmath(x) - mean.reshape(column)) * factor.reshape(column)
    return out if bias is None else out + opmath(bias).reshape(column)


def _of_batch(
    x: jax.Array, weight: _MaybeArray, bias: _MaybeArray, eps: Any
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    axes, column = _axes(x)
    wide = opmath(x)
    mean = wide.mean(axes)
    var = jnp.square(wide - mean.reshape(column)).mean(axes)
    rstd = jax.lax.rsqrt(var + jnp.asarray(eps).astype(var.dtype))
    return _scale(x, mean, rstd, weight, bias), mean, rstd, var


def _updated(
    running_mean: jax.Array,
    running_var: jax.Array,
    mean: jax.Array,
    var: jax.Array,
    momentum: Any,
    x: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the updated running statistics. The running variance is unbiased."""
    count = math.prod(x.shape[a] for a in _axes(x)[0])
    unbiased = var * (count / (count - 1) if count > 1 else math.nan)
    m = scalar(momentum, mean)
    return (
        (1 - m) * opmath(running_mean) + m * mean,
        (1 - m) * opmath(running_var) + m * unbiased,
    )
