# SPDX-License-Identifier: Apache-2.0
"""Losses. Padding in class targets is set to `ignore_index`, and means exclude padding."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, filled, redim
from torch_google.tpu.buckets.pointwise import aligned
from torch_google.tpu.buckets.rules import RuleCall, require, rule
from torch_google.tpu.buckets.sizes import Dim, PaddingRefusal
from torch_google.tpu.lowerings.losses import MEAN, NONE, SUM


@rule(
    "aten::nll_loss_forward",
    "aten::nll_loss2d_forward",
    "aten::nll_loss_backward",
    "aten::nll_loss2d_backward",
)
def classes(call: RuleCall) -> Any:
    x, target = call.argument("self"), call.argument("target")
    axis = 0 if len(x.dims) == 1 else 1
    require(call.op.name(), x.dims[axis : axis + 1])
    if len(x.dims) == 1:
        raise PaddingRefusal(f"{call.op.name()} of one row")
    target = redim(call.scope, target, (*x.dims[:axis], *x.dims[axis + 1 :]))
    ignored = call.argument("ignore_index")
    real = filled(call.scope, target, range(len(target.dims)), ignored)
    backward = "backward" in call.op.name()
    grad = call.args[:1] if backward else ()
    if backward and grad[0].dims:
        grad = (redim(call.scope, grad[0], target.dims),)
    others = call.args[3:] if backward else call.args[2:]
    results = call.lower(*grad, x, real, *others)
    if backward:
        return [PaddedArray(results[0], x.dims)]
    each = call.argument("reduction") == NONE
    return [PaddedArray(results[0], target.dims if each else ()), PaddedArray(results[1], ())]


@rule(
    "aten::mse_loss",
    "aten::smooth_l1_loss",
    "aten::huber_loss",
    "aten::binary_cross_entropy",
    "aten::binary_cross_entropy_with_logits",
    "aten::soft_margin_loss",
)
def each(call: RuleCall) -> Any:
    reduction = call.argument("reduction")
    dims, arguments = _padded_arguments(call)
    losses = PaddedArray(call.lower(*_reducing(call, arguments, NONE))[0], dims)
    if reduction == NONE:
        return [losses]
    total = filled(call.scope, losses, range(len(dims)), 0).sum(dtype=_wide(losses))
    if reduction == MEAN:
        total = total / jnp.asarray(call.scope.count(dims), total.dtype)
    return [PaddedArray(total.astype(call.dtype()), ())]


@rule(
    "aten::mse_loss_backward",
    "aten::smooth_l1_loss_backward",
    "aten::huber_loss_backward",
    "aten::binary_cross_entropy_backward",
    "aten::soft_margin_loss_backward",
)
def each_backward(call: RuleCall) -> Any:
    reduction = call.argument("reduction")
    dims, arguments = _padded_arguments(call)
    if reduction == MEAN:
        count = jnp.asarray(call.scope.count(dims), arguments[0].array.dtype)
        arguments[0] = PaddedArray(arguments[0].array / count, arguments[0].dims)
    lowered_reduction = NONE if reduction == NONE else SUM
    return [PaddedArray(call.lower(*_reducing(call, arguments, lowered_reduction))[0], dims)]


def _padded_arguments(call: RuleCall) -> tuple[tuple[Dim, ...], list[Any]]:
    """Return the dimensions of the losses, and all arguments padded to these dimensions."""
    arguments = call.arguments()
    dims, arrays = aligned(call.scope, [a for a in arguments if isinstance(a, PaddedArray)])
    padded = iter(arrays)
    return dims, [next(padded) if isinstance(a, PaddedArray) else a for a in arguments]


def _reducing(call: RuleCall, arguments: list[Any], reduction: int) -> list[Any]:
    names = [argument.name for argument in call.op._schema.arguments]
    return [
        reduction if name == "reduction" else value
        for name, value in zip(names, arguments, strict=True)
    ]


def _wide(x: PaddedArray) -> Any:
    return jnp.float32 if x.array.dtype in (jnp.bfloat16, jnp.float16) else x.array.dtype
