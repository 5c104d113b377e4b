# SPDX-License-Identifier: Apache-2.0
"""Reductions. Padding is set to the identity element, and means count only the real elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, axis_of, filled
from torch_google.tpu.buckets.pointwise import aligned
from torch_google.tpu.buckets.rules import RuleCall, require, rule
from torch_google.tpu.buckets.sizes import Dim, PaddingRefusal
from torch_google.tpu.buckets.views import leading
from torch_google.tpu.lowerings.promotion import convert, wide


@rule("aten::sum", "aten::sum.dim_IntList", "aten::nansum", "aten::count_nonzero")
@rule("aten::count_nonzero.dim_IntList", "aten::any", "aten::any.dim", "aten::any.dims")
def from_zero(call: RuleCall) -> Any:
    return _reduced(call, 0)


@rule("aten::prod", "aten::prod.dim_int", "aten::all", "aten::all.dim", "aten::all.dims")
def from_one(call: RuleCall) -> Any:
    return _reduced(call, 1)


@rule("aten::amax", "aten::max", "aten::max.dim")
def from_least(call: RuleCall) -> Any:
    return _reduced(call, least(call.args[0].array))


@rule("aten::logsumexp")
def logsumexp(call: RuleCall) -> Any:
    x = call.args[0]  # convert first, because integers cannot represent -inf
    return _reduced(
        call, -jnp.inf, PaddedArray(convert(x.array, call.metas[0].dtype), x.dims, x.uniform)
    )


@rule("aten::amin", "aten::min", "aten::min.dim")
def from_greatest(call: RuleCall) -> Any:
    return _reduced(call, greatest(call.args[0].array))


@rule("aten::argmax", "aten::argmin")
def where(call: RuleCall) -> Any:
    """Compute argmax or argmin. Padding at the end does not change the indices of elements."""
    x = call.args[0]
    if call.argument("dim") is None:
        if any(extent.padded for dim in x.dims[1:] for extent in dim):
            raise PaddingRefusal(f"{call.op.name()} over all elements, with padding inside")
        x = leading(call.scope, x, 0) if x.dims else x
    return _reduced(call, (least if "max" in call.op.name() else greatest)(x.array), x)


@rule("aten::linalg_vector_norm", "aten::norm.ScalarOpt_dim", "aten::norm.Scalar")
def norm(call: RuleCall) -> Any:
    named = "ord" if "vector" in call.op.name() else "p"
    order = call.argument(named)
    if not (order is None or (isinstance(order, int | float) and order >= 0)):
        raise PaddingRefusal(f"{call.op.name()} of order {order}")
    return _reduced(call, 0)


@rule("aten::mean", "aten::mean.dim")
def mean(call: RuleCall) -> Any:
    x = call.args[0]
    axes, keepdim = axes_of(call, x)
    if not any(extent.padded for axis in axes for extent in x.dims[axis]):
        return _reduced(call, 0)
    dtype = wide(call.metas[0].dtype)
    total = jnp.sum(convert(filled(call.scope, x, axes, 0), dtype), tuple(axes), keepdims=keepdim)
    count = call.scope.count(x.dims[axis] for axis in axes)
    return [_result(call, x, total / jnp.asarray(count, total.dtype), axes, keepdim)]


@rule("aten::var.correction", "aten::std.correction")
@rule("aten::var_mean.correction", "aten::std_mean.correction")
def variance(call: RuleCall) -> Any:
    x = call.args[0]
    if jnp.iscomplexobj(x.array):
        raise PaddingRefusal(f"{call.op.name()} of complex numbers")
    axes, keepdim = axes_of(call, x)
    over = tuple(axes)
    work = convert(filled(call.scope, x, axes, 0), wide(call.metas[0].dtype))
    count = call.scope.count(x.dims[axis] for axis in axes)
    middle = work.sum(over, keepdims=True) / jnp.asarray(count, work.dtype)
    off = filled(call.scope, PaddedArray(work - middle, x.dims), axes, 0)
    correction = call.argument("correction")
    freedom = count - (1 if correction is None else correction)
    spread = jnp.square(off).sum(over, keepdims=keepdim) / jnp.maximum(
        jnp.asarray(freedom, work.dtype), 0
    )
    if "std" in call.op.name():
        spread = jnp.sqrt(spread)
    results = [_result(call, x, spread, axes, keepdim)]
    if len(call.metas) == 2:
        middle = middle if keepdim else jnp.squeeze(middle, over)
        results.append(_result(call, x, middle, axes, keepdim, 1))
    return results


@rule("aten::_softmax", "aten::_log_softmax", "aten::_safe_softmax")
def softmax(call: RuleCall) -> Any:
    x, dim, *others = call.args
    axis = axis_of(x, dim)
    array = filled(call.scope, x, [axis], -jnp.inf) if x.dims else x.array
    return [PaddedArray(call.lower(array, axis, *others, **call.kwargs)[0], x.dims)]


@rule("aten::_softmax_backward_data", "aten::_log_softmax_backward_data")
def softmax_backward(call: RuleCall) -> Any:
    dims, (grad, out) = aligned(call.scope, call.args[:2])
    axis = axis_of(out, call.args[2])
    inputs = [filled(call.scope, x, [axis], 0) if x.dims else x.array for x in (grad, out)]
    return [PaddedArray(call.lower(*inputs, axis, *call.args[3:])[0], dims)]


@rule("aten::cumsum", "aten::cumprod", "aten::logcumsumexp", "aten::cummax", "aten::cummin")
def scan(call: RuleCall) -> Any:
    """Scan a dimension after moving its padding to the end, where it affects no other element."""
    x, dim = call.args[:2]
    x = leading(call.scope, x, axis_of(x, dim)) if x.dims else x
    return [
        None if array is None else PaddedArray(array, x.dims)
        for array in call.lower(x, *call.args[1:], **call.kwargs)
    ]


@rule("aten::sort", "aten::sort.stable", "aten::topk", "aten::median.dim", "aten::kthvalue")
@rule("aten::mode", "aten::nanmedian.dim")
def ordered(call: RuleCall) -> Any:
    x = call.args[0]
    axis = axis_of(x, call.argument("dim"))
    require(call.op.name(), x.dims[axis : axis + 1])
    results = []
    for array in call.lower(*call.args, **call.kwargs):
        assert array is not None
        keepdim = array.ndim == len(x.dims)
        own = call.scope.dims(array.shape[axis : axis + 1]) if keepdim else ()
        results.append(PaddedArray(array, (*x.dims[:axis], *own, *x.dims[axis + 1 :])))
    return results


def axes_of(call: RuleCall, x: PaddedArray) -> tuple[list[int], bool]:
    """Return the axes of a reduction, and whether the result keeps them with size 1."""
    names = {argument.name for argument in call.op._schema.arguments}
    dim = call.argument("dim") if "dim" in names else None
    keepdim = bool(call.argument("keepdim")) if "keepdim" in names else False
    listed = [dim] if isinstance(dim, int) else list(dim or range(len(x.dims)))
    return (sorted(axis_of(x, axis) for axis in listed) if x.dims else []), keepdim


def least(x: jax.Array) -> Any:
    """Return the smallest value of an array's dtype."""
    return _end(x, -math.inf, "min")


def greatest(x: jax.Array) -> Any:
    """Return the largest value of an array's dtype."""
    return _end(x, math.inf, "max")


def _end(x: jax.Array, infinity: float, name: str) -> Any:
    if jnp.issubdtype(x.dtype, jnp.bool_):
        return name == "max"
    if jnp.issubdtype(x.dtype, jnp.floating):
        return infinity
    return getattr(jnp.iinfo(x.dtype), name)


def _reduced(
    call: RuleCall, identity: Any, operand: PaddedArray | None = None
) -> list[PaddedArray]:
    x: PaddedArray = call.args[0] if operand is None else operand
    axes, keepdim = axes_of(call, x)
    if len(call.metas) == 2 or "arg" in call.op.name():
        for axis in axes:
            x = leading(call.scope, x, axis)
    array = filled(call.scope, x, axes, identity)
    return [
        _result(call, x, result, axes, keepdim, position)
        for position, result in enumerate(call.lower(array, *call.args[1:], **call.kwargs))
    ]


def _result(
    call: RuleCall,
    x: PaddedArray,
    array: Any,
    axes: Sequence[int],
    keepdim: bool,
    position: int = 0,
) -> PaddedArray:
    dims: list[Dim] = [
        () if axis in axes else dim
        for axis, dim in enumerate(x.dims)
        if keepdim or axis not in axes
    ]
    return PaddedArray(array.astype(call.dtype(position)), tuple(dims))
