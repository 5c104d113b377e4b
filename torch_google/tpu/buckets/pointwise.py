# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators. Their results are padded like their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, compacted, redim, unpacked
from torch_google.tpu.buckets.rules import RuleCall, rule
from torch_google.tpu.buckets.sizes import Dim, PaddingRefusal, SizeScope, is_padded


@rule(
    "aten::_neg_view",
    "aten::_prelu_kernel",
    "aten::_to_copy",
    "aten::alias",
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::elu_backward",
    "aten::hardsigmoid_backward",
    "aten::hardswish_backward",
    "aten::hardtanh_backward",
    "aten::isinf",
    "aten::isnan",
    "aten::leaky_relu_backward",
    "aten::lift_fresh",
    "aten::lift_fresh_copy",
    "aten::log_sigmoid_backward",
    "aten::logit_backward",
    "aten::mish_backward",
    "aten::resolve_conj",
    "aten::resolve_neg",
    "aten::softplus_backward",
    "aten::softshrink_backward",
    "aten::hardshrink_backward",
    "aten::_conj",
    "aten::_neg_view_copy",
    "aten::_prelu_kernel_backward",
    "aten::alias_copy",
    "aten::complex",
    "aten::conj",
    "aten::detach_copy",
    "aten::floor_divide",
    "aten::floor_divide.Scalar",
    "aten::hardswish",
    "aten::imag",
    "aten::lift",
    "aten::masked_fill.Tensor",
    "aten::polar",
    "aten::real",
    "aten::rsub.Tensor",
    "aten::special_i0",
    "aten::where.Scalar",
    "aten::where.ScalarOther",
    "aten::where.ScalarSelf",
    "prims::convert_element_type",
    "prims::div",
)
def pointwise(call: RuleCall) -> Any:
    """Pad all operands in the same way, and apply an elementwise operator to them."""
    operands = [x for x in (*call.args, *call.kwargs.values()) if isinstance(x, PaddedArray)]
    dims, alike = aligned(call.scope, operands)
    remaining = iter(alike)
    args = [next(remaining) if isinstance(x, PaddedArray) else x for x in call.args]
    kwargs = {
        n: next(remaining) if isinstance(x, PaddedArray) else x for n, x in call.kwargs.items()
    }
    results = call.lower(*args, **kwargs)
    uniform = all(x.uniform or not x.dims for x in operands)
    return [None if array is None else PaddedArray(array, dims, uniform) for array in results]


@rule("aten::log_sigmoid_forward")
def log_sigmoid(call: RuleCall) -> Any:
    x = call.args[0]
    out, buffer = call.lower(x)
    assert buffer is not None
    return [PaddedArray(out, x.dims), PaddedArray(buffer, x.dims if buffer.size else call.own(1))]


@rule("aten::copy")
def copy(call: RuleCall) -> Any:
    target, source = call.args[:2]
    source = _alike(call.scope, source, target.dims)
    array = jnp.broadcast_to(source.array, target.array.shape).astype(call.dtype())
    return [PaddedArray(array, target.dims)]


@rule("aten::fill.Scalar", "aten::fill.Tensor", "aten::zero")
def fill(call: RuleCall) -> Any:
    x = call.args[0]
    return [
        PaddedArray(array, x.dims, True) for array in call.lower(*call.args) if array is not None
    ]


@rule(
    "aten::bernoulli",
    "aten::bernoulli.p",
    "aten::exponential",
    "aten::native_dropout",
    "aten::normal_functional",
    "aten::rand_like",
    "aten::randn_like",
    "aten::randint_like",
    "aten::randint_like.low_dtype",
    "aten::uniform",
)
def drawn(call: RuleCall) -> Any:
    """Draw random numbers as if there were no padding, and then insert the padding.

    JAX derives the bits of an element only from its index, so the numbers equal those of a program
    without padding.
    """
    if not jax.config.jax_threefry_partitionable:
        raise PaddingRefusal("random numbers that depend on the size of the array")
    x = call.args[0]
    if any(isinstance(arg, PaddedArray) for arg in call.args[1:]):
        raise PaddingRefusal(f"{call.op.name()} with tensors for its parameters")
    flat = compacted(call.scope, x)
    results = call.lower(flat, *call.args[1:], **call.kwargs)
    return [None if array is None else unpacked(call.scope, array, x.dims) for array in results]


def aligned(
    scope: SizeScope, operands: Sequence[PaddedArray]
) -> tuple[tuple[Dim, ...], list[PaddedArray]]:
    """Return the dims of the broadcast operands, and the operands padded to these dims."""
    rank = max((len(x.dims) for x in operands), default=0)
    dims: list[Dim] = []
    for axis in range(rank):
        candidates = [
            (x.uniform, x.dims[axis - rank])
            for x in operands
            if len(x.dims) >= rank - axis and x.dims[axis - rank] != ()
        ]
        # Prefer the dimension of an operand whose elements are not all equal, then the dimension
        # with the most extents (factors), because matmuls and reductions also keep a dimension's
        # extents separate.
        candidates.sort(key=lambda candidate: (candidate[0], -len(candidate[1])))
        dims.append(candidates[0][1] if candidates else ())
    return tuple(dims), [_alike(scope, x, dims) for x in operands]


def _alike(scope: SizeScope, x: PaddedArray, dims: Sequence[Dim]) -> PaddedArray:
    lead = len(dims) - len(x.dims)
    target_dims = tuple(() if own == () else dims[lead + axis] for axis, own in enumerate(x.dims))
    for own, other in zip(x.dims, target_dims, strict=True):
        if own != other and not (is_padded(own) or is_padded(other)):
            raise PaddingRefusal("operands of different sizes")
    return redim(scope, x, target_dims)
