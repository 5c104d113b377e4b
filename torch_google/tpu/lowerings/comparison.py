# SPDX-License-Identifier: Apache-2.0
"""Elementwise comparisons, logic, bit operations and selection."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from torch_google.tpu.lowerings.promotion import Array, Operand, common, convert, dtype_of
from torch_google.tpu.lowerings.table import lowering

_Binary = Callable[[Array, Array], Array]
# isin compares all pairs if there are at most this many test elements.
_COMPARED = 64


def _on_common_dtype(function: _Binary) -> Callable[[Operand, Operand], Array]:
    def lower(self: Operand, other: Operand) -> Array:
        return function(*common(self, other))

    return lower


def _on_truth(function: _Binary) -> Callable[[Array, Array], Array]:
    def lower(self: Array, other: Array) -> Array:
        return function(self != 0, other != 0)

    return lower


for _name, _function in {
    "eq": jnp.equal,
    "ne": jnp.not_equal,
    "lt": jnp.less,
    "le": jnp.less_equal,
    "gt": jnp.greater,
    "ge": jnp.greater_equal,
}.items():
    lowering(f"aten::{_name}.Tensor", f"aten::{_name}.Scalar")(_on_common_dtype(_function))

for _name, _function in {
    "logical_and": jnp.logical_and,
    "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor,
}.items():
    lowering(f"aten::{_name}")(_on_truth(_function))

for _name, _function in {
    "bitwise_and": jnp.bitwise_and,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
}.items():
    lowering(f"aten::{_name}.Tensor", f"aten::{_name}.Scalar", f"aten::{_name}.Scalar_Tensor")(
        _on_common_dtype(_function)
    )


def _out_of_range(shift: Array, bits: int) -> Array:
    return (shift < 0) | (shift >= bits)


@lowering(
    "aten::bitwise_left_shift.Tensor",
    "aten::bitwise_left_shift.Tensor_Scalar",
    "aten::bitwise_left_shift.Scalar_Tensor",
    "aten::__lshift__.Tensor",
    "aten::__lshift__.Scalar",
)
def left_shift(self: Operand, other: Operand) -> Array:
    """Shift left. If the shift is negative or at least the bit width, the result is zero."""
    x, y = jnp.broadcast_arrays(*common(self, other))
    zero = jnp.zeros_like(y)
    outside = _out_of_range(y, x.dtype.itemsize * 8)
    return jnp.where(outside, zero, lax.shift_left(x, jnp.where(outside, zero, y)))


@lowering(
    "aten::bitwise_right_shift.Tensor",
    "aten::bitwise_right_shift.Tensor_Scalar",
    "aten::bitwise_right_shift.Scalar_Tensor",
    "aten::__rshift__.Tensor",
    "aten::__rshift__.Scalar",
)
def right_shift(self: Operand, other: Operand) -> Array:
    """Shift right. If the shift is negative or at least the bit width, only sign bits remain."""
    x, y = jnp.broadcast_arrays(*common(self, other))
    bits = x.dtype.itemsize * 8
    outside = _out_of_range(y, bits)
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        zero = jnp.zeros_like(y)
        return jnp.where(outside, zero, lax.shift_right_logical(x, jnp.where(outside, zero, y)))
    most = jnp.asarray(bits - 1, y.dtype)
    return lax.shift_right_arithmetic(x, jnp.where(outside, most, y))


@lowering(
    "aten::where.self",
    "aten::where.ScalarSelf",
    "aten::where.ScalarOther",
    "aten::where.Scalar",
)
def where(condition: Array, self: Operand, other: Operand) -> Array:
    x, y = common(self, other)
    return jnp.where(condition != 0, x, y)


@lowering("aten::clamp", "aten::clamp.Tensor")
def clamp(self: Array, min: Operand = None, max: Operand = None) -> Array:  # noqa: A002
    """Clamp to the bounds. If they cross, the upper bound wins. NaN stays NaN."""
    bounds = [bound for bound in (min, max) if bound is not None]
    x, *limits = common(self, *bounds)
    if min is not None:
        x = jnp.maximum(x, limits.pop(0))
    if max is not None:
        x = jnp.minimum(x, limits.pop(0))
    return x


@lowering("aten::clamp_min", "aten::clamp_min.Tensor")
def clamp_min(self: Array, min: Operand) -> Array:  # noqa: A002
    return jnp.maximum(*common(self, min))


@lowering("aten::clamp_max", "aten::clamp_max.Tensor")
def clamp_max(self: Array, max: Operand) -> Array:  # noqa: A002
    return jnp.minimum(*common(self, max))


@lowering("aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor")
def isin(
    elements: Operand,
    test_elements: Operand,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Array:
    x, y = common(elements, test_elements)
    # Comparing all pairs is fastest if there are few test elements. Otherwise, use binary search.
    method = "compare_all" if y.size <= _COMPARED else "binary_search"
    return jnp.isin(x, y, invert=invert, method=method)


@lowering("aten::fill.Scalar", "aten::fill.Tensor")
def fill(self: Array, value: Operand) -> Array:
    return jnp.broadcast_to(convert(value, dtype_of(self)), self.shape)


@lowering("aten::zero")
def zero(self: Array) -> Array:
    return jnp.zeros_like(self)


@lowering("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(self: Array, mask: Array, value: Operand) -> Array:
    return jnp.where(mask, convert(value, dtype_of(self)), self)
