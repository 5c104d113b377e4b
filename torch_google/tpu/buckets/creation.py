# SPDX-License-Identifier: Apache-2.0
"""Operators that create a tensor from a single value or from random numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray, unpacked
from torch_google.tpu.buckets.rules import RuleCall, rule
from torch_google.tpu.buckets.sizes import PaddingRefusal, width
from torch_google.tpu.lowerings.promotion import convert


@rule("aten::zeros", "aten::empty.memory_format", "aten::empty_strided", "aten::zeros_like")
@rule("aten::empty_like", "aten::new_zeros", "aten::new_empty", "aten::new_empty_strided")
@rule("aten::empty_permuted")
def zeros(call: RuleCall) -> Any:
    return [_filled(call, 0)]


@rule("aten::ones", "aten::ones_like", "aten::new_ones")
def ones(call: RuleCall) -> Any:
    return [_filled(call, 1)]


@rule("aten::full", "aten::full_like", "aten::new_full")
def full(call: RuleCall) -> Any:
    value = call.argument("fill_value")
    return [_filled(call, value)]


@rule("aten::scalar_tensor")
def scalar(call: RuleCall) -> Any:
    return [_filled(call, call.args[0])]


@rule("aten::rand", "aten::randn", "aten::randint", "aten::randint.low")
def drawn(call: RuleCall) -> Any:
    """Draw random numbers, the same as without padding (see `drawn` in pointwise.py)."""
    if not jax.config.jax_threefry_partitionable or call.metas[0].dtype.is_complex:
        raise PaddingRefusal("random numbers that depend on the size of the array")
    dims = call.own()
    count = 1
    for dim in dims:
        count *= width(dim)
    args = list(call.args)
    names = [argument.name for argument in call.op._schema.arguments]
    args[names.index("size")] = [count]
    (flat,) = call.lower(*args, **call.kwargs)
    assert flat is not None
    return [unpacked(call.scope, flat, dims)]


def _filled(call: RuleCall, value: Any) -> PaddedArray:
    dims = call.args[0].dims if _is_like(call) else call.own()
    if isinstance(value, PaddedArray):
        value = value.array
    shape = [width(dim) for dim in dims]
    array = jnp.broadcast_to(convert(value, call.metas[0].dtype), shape)
    return PaddedArray(array, tuple(dims), True)


def _is_like(call: RuleCall) -> bool:
    return call.op.name().endswith("_like")
