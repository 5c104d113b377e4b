# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention. Padded keys are masked out."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, cleared, redim, valid
from torch_google.tpu.buckets.rules import RuleCall, require, rule
from torch_google.tpu.buckets.sizes import Dim, PaddingRefusal, SizeScope, is_padded, width
from torch_google.tpu.buckets.views import leading
from torch_google.tpu.lowerings.opmath import is_zero


@rule("aten::_scaled_dot_product_efficient_attention")
def attention(call: RuleCall) -> Any:
    q, k, v = _operands(call, *call.args[:3])
    bias, _ = _bias(call, q, k, call.args[3])
    inputs = [cleared(call.scope, x) for x in (q, k, v)]
    out, lse, seed, offset = call.lower(*inputs, bias, *call.args[4:], **call.kwargs)
    assert lse is not None
    dims = (*q.dims[:2], call.own(1)[2])
    # torch pads its log-sum-exp with infinity, so set the bucket's padding to infinity as well.
    if is_padded(q.dims[2]) and lse.size:
        real = jnp.arange(lse.shape[-1]) < call.scope.real(q.dims[2])
        lse = jnp.where(real, lse, jnp.inf)
    room = width(dims[2]) - lse.shape[-1]
    lse = jnp.pad(lse, [(0, 0), (0, 0), (0, max(room, 0))], constant_values=jnp.inf)
    lse = lse[..., : width(dims[2])]
    return [
        PaddedArray(out, (*q.dims[:3], v.dims[3])),
        PaddedArray(lse.reshape([width(dim) for dim in dims]), dims),
        PaddedArray(seed, ()),
        PaddedArray(offset, ()),
    ]


@rule("aten::_scaled_dot_product_efficient_attention_backward")
def attention_backward(call: RuleCall) -> Any:
    grad, *others = call.args
    q, k, v = _operands(call, *others[:3])
    bias, bias_dims = _bias(call, q, k, others[3])
    out_dims = (*q.dims[:3], v.dims[3])
    grad, out = (redim(call.scope, x, out_dims) for x in (grad, others[4]))
    arrays = [cleared(call.scope, x) for x in (grad, q, k, v)]
    grads = call.lower(*arrays, bias, out, *others[5:], **call.kwargs)
    dims = [q.dims, k.dims, v.dims, bias_dims]
    return [
        None if array is None or own is None else PaddedArray(array, own)
        for array, own in zip(grads, dims, strict=True)
    ]


def _operands(
    call: RuleCall, q: PaddedArray, k: PaddedArray, v: PaddedArray
) -> tuple[PaddedArray, PaddedArray, PaddedArray]:
    if not is_zero(call.argument("dropout_p")):
        raise PaddingRefusal("attention with dropout")
    require(call.op.name(), (q.dims[1], k.dims[1], q.dims[3], v.dims[3]))
    scope = call.scope
    # Causal attention compares row and column indices, so the padding must be at the end.
    q, k = leading(scope, q, 2), leading(scope, k, 2)
    k = redim(scope, k, (q.dims[0], *k.dims[1:]))
    v = redim(scope, v, (q.dims[0], v.dims[1], k.dims[2], v.dims[3]))
    return q, k, v


def _bias(
    call: RuleCall, q: PaddedArray, k: PaddedArray, bias: PaddedArray | None
) -> tuple[Any, tuple[Dim, ...] | None]:
    """Return a bias or mask that hides padded keys, and the dims of the bias's gradient.

    The bias and its gradient are padded to the dims of the queries and keys. If there is no bias,
    the returned dims are None.
    """
    scope: SizeScope = call.scope
    real = valid(scope, k, [2])
    if real is not None:
        real = real.reshape(-1)  # the mask must have no more dimensions than the bias
    if bias is None:
        return real, None
    lead = 4 - len(bias.dims)
    target_dims = (q.dims[0], q.dims[1], q.dims[2], k.dims[2])[lead:]
    dims = tuple(
        () if own == () else target for own, target in zip(bias.dims, target_dims, strict=True)
    )
    # Clear the padding of the bias: infinities in a padded row would turn the row's weights into
    # NaN, which would spread to the gradient of every key.
    fitted = cleared(scope, redim(scope, bias, dims))
    if real is None:
        return fitted, dims
    if fitted.dtype == jnp.bool_:
        return fitted & real, dims
    return jnp.where(real, fitted, jnp.asarray(-jnp.inf, fitted.dtype)), dims
