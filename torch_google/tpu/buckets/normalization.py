# SPDX-License-Identifier: Apache-2.0
"""Layer, group and RMS normalization, and batch normalization over all elements except padding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, cleared, filled, redim
from torch_google.tpu.buckets.pointwise import aligned
from torch_google.tpu.buckets.rules import RuleCall, like, require, rule
from torch_google.tpu.lowerings.opmath import opmath, scalar


@rule("aten::native_layer_norm", "aten::_fused_rms_norm")
def rows(call: RuleCall) -> Any:
    x = call.args[0]
    batch = x.dims[: len(x.dims) - len(call.args[1])]
    require(call.op.name(), x.dims[len(batch) :])
    inner = list(x.array.shape[len(batch) :])
    return [like(batch, array) for array in call.lower(x, inner, *call.args[2:])]


@rule("aten::native_layer_norm_backward", "aten::_fused_rms_norm_backward")
def rows_backward(call: RuleCall) -> Any:
    """Compute the gradients. Clear padded rows, because the weights' gradients sum over rows."""
    grad, x, shape, *others = call.args
    lead = len(x.dims) - len(shape)
    grad = redim(call.scope, grad, x.dims)
    require(call.op.name(), x.dims[lead:])
    statistics = []
    for value in others:
        # Statistics, unlike weights, have the rank of x and one value per row.
        if isinstance(value, PaddedArray) and len(value.dims) == len(x.dims):
            value = redim(call.scope, value, (*x.dims[:lead], *value.dims[lead:]))
            statistics.append(cleared(call.scope, value))
        else:
            statistics.append(value)
    inner = list(x.array.shape[lead:])
    to_x, *rest = call.lower(cleared(call.scope, grad), cleared(call.scope, x), inner, *statistics)
    return [
        None if to_x is None else PaddedArray(to_x, x.dims),
        *(None if array is None else like((), array) for array in rest),
    ]


@rule("aten::native_group_norm")
def groups(call: RuleCall) -> Any:
    x = call.args[0]
    require(call.op.name(), x.dims[1:])
    args = list(call.args)
    args[3] = x.array.shape[0]
    out, *statistics = call.lower(*args)
    return [PaddedArray(out, x.dims), *(like(x.dims[:1], array) for array in statistics)]


@rule("aten::native_group_norm_backward")
def groups_backward(call: RuleCall) -> Any:
    grad, x, mean, rstd, weight, _, *others = call.args
    require(call.op.name(), x.dims[1:])
    grad = redim(call.scope, grad, x.dims)
    mean, rstd = (redim(call.scope, s, (x.dims[0], *s.dims[1:])) for s in (mean, rstd))
    inputs = [cleared(call.scope, value) for value in (grad, x, mean, rstd)]
    to_x, *rest = call.lower(*inputs, weight, x.array.shape[0], *others)
    return [
        None if to_x is None else PaddedArray(to_x, x.dims),
        *(None if array is None else like((), array) for array in rest),
    ]


@rule("aten::_native_batch_norm_legit_no_training")
def batch_known(call: RuleCall) -> Any:
    x = call.args[0]
    out, *statistics = call.lower(*call.args)
    return [PaddedArray(out, x.dims), *(like((), array) for array in statistics)]


@rule("aten::_native_batch_norm_legit_functional", "torch_google::native_batch_norm_functional")
@rule("aten::_native_batch_norm_legit.no_stats")
def batch(call: RuleCall) -> Any:
    x = call.args[0]
    require(call.op.name(), x.dims[1:2])
    if not call.argument("training"):
        out, *statistics = call.lower(*call.args, **call.kwargs)
        return [PaddedArray(out, x.dims), *(like((), array) for array in statistics)]
    axes, column = _axes(x)
    wide = opmath(filled(call.scope, x, axes, 0))
    count = call.scope.count(x.dims[axis] for axis in axes)
    size = jnp.asarray(count, wide.dtype)
    mean = wide.sum(axes) / size
    off = filled(call.scope, PaddedArray(wide - mean.reshape(column), x.dims), axes, 0)
    var = jnp.square(off).sum(axes) / size
    rstd = jax.lax.rsqrt(var + jnp.asarray(call.argument("eps")).astype(var.dtype))
    out = off * rstd.reshape(column)
    weight, bias = call.argument("weight"), call.argument("bias")
    out = out if weight is None else out * opmath(weight.array).reshape(column)
    out = out if bias is None else out + opmath(bias.array).reshape(column)
    results: list[Any] = [out, mean, rstd]
    if len(call.metas) == 5:
        results += _running(call, mean, var * (size / (size - 1)))
    done = call.cast(results)
    return [
        PaddedArray(done[0], x.dims),
        *(like((), array) for array in done[1:] if array is not None),
    ]


@rule("aten::native_batch_norm_backward")
def batch_backward(call: RuleCall) -> Any:
    (dims, (grad, x)), argument = aligned(call.scope, call.args[:2]), call.argument
    require(call.op.name(), dims[1:2])
    axes, column = _axes(x)
    wide, input_ = opmath(filled(call.scope, grad, axes, 0)), opmath(filled(call.scope, x, axes, 0))
    if argument("train"):
        mean, rstd = opmath(argument("save_mean").array), opmath(argument("save_invstd").array)
    else:
        mean, var = opmath(argument("running_mean").array), opmath(argument("running_var").array)
        rstd = jax.lax.rsqrt(var + jnp.asarray(argument("eps")).astype(var.dtype))
    normal = (input_ - mean.reshape(column)) * rstd.reshape(column)
    total, slope = wide.sum(axes), (wide * normal).sum(axes)
    weight = argument("weight")
    factor = rstd if weight is None else rstd * opmath(weight.array)
    to_x = wide
    if argument("train"):
        count = jnp.asarray(call.scope.count(dims[axis] for axis in axes), wide.dtype)
        to_x = wide - (total / count).reshape(column) - normal * (slope / count).reshape(column)
    results = call.cast(
        [
            value if requested else None
            for value, requested in zip(
                (to_x * factor.reshape(column), slope, total), argument("output_mask"), strict=True
            )
        ]
    )
    return [
        None if results[0] is None else PaddedArray(results[0], dims),
        *(None if array is None else like((), array) for array in results[1:]),
    ]


def _axes(x: PaddedArray) -> tuple[tuple[int, ...], list[int]]:
    """Return the axes to reduce, and a shape in which per-channel vectors broadcast against x."""
    rank = len(x.dims)
    return (0, *range(2, rank)), [1, -1, *[1] * (rank - 2)]


def _running(call: RuleCall, mean: jax.Array, unbiased: jax.Array) -> list[jax.Array]:
    olds = [call.argument("running_mean"), call.argument("running_var")]
    if olds[0] is None:
        return [jnp.zeros((0,)), jnp.zeros((0,))]
    m = scalar(call.argument("momentum"), mean)
    return [
        (1 - m) * opmath(old.array) + m * new
        for old, new in zip(olds, (mean, unbiased), strict=True)
    ]
