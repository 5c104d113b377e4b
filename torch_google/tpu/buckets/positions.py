# SPDX-License-Identifier: Apache-2.0
"""Operators that depend on the indices of elements. Padding is first moved to the end."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from torch_google.tpu.buckets.padded_array import PaddedArray
from torch_google.tpu.buckets.rules import RuleCall, rule
from torch_google.tpu.buckets.sizes import width
from torch_google.tpu.buckets.views import leading
from torch_google.tpu.lowerings.promotion import convert


@rule("aten::tril", "aten::triu")
def triangle(call: RuleCall) -> Any:
    x = call.args[0]
    for axis in (len(x.dims) - 2, len(x.dims) - 1):
        x = leading(call.scope, x, axis)
    return [PaddedArray(call.lower(x, *call.args[1:], **call.kwargs)[0], x.dims)]


@rule("aten::arange", "aten::arange.start", "aten::arange.start_step", "prims::iota")
def count(call: RuleCall) -> Any:
    names = {argument.name for argument in call.op._schema.arguments}
    start = call.argument("start") if "start" in names else 0
    step = call.argument("step") if "step" in names else 1
    dims = call.own()
    dtype = call.metas[0].dtype
    # Compute in the same dtype as the lowering: float64 if the result and `start` or `step` are
    # floating-point, otherwise int64.
    is_integer = not (dtype.is_floating_point and (_fraction(start) or _fraction(step)))
    places = jnp.arange(width(dims[0]), dtype=jnp.int64 if is_integer else jnp.float64)
    return [PaddedArray(convert(start + places * step, dtype), dims)]


def _fraction(value: Any) -> bool:
    return not isinstance(value, int) and not jnp.issubdtype(jnp.asarray(value).dtype, jnp.integer)
