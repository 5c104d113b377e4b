# SPDX-License-Identifier: Apache-2.0
"""Elementwise arithmetic on two tensors, or on a tensor and a scalar."""

from __future__ import annotations

import jax.numpy as jnp
import torch
from jax import lax

from torch_google.tpu.lowerings.promotion import (
    Array,
    Operand,
    common,
    computed,
    convert,
    dtype_of,
    floating,
    floats,
    result_type,
    wide,
)
from torch_google.tpu.lowerings.table import lowering


def _is_float(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _is_inexact(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _scaled(x: Array, alpha: Operand) -> Array:
    if isinstance(alpha, int | float | complex) and alpha == 1:
        return x
    return x * convert(alpha, dtype_of(x))


@lowering("aten::add.Tensor", "aten::add.Scalar")
def add(self: Array, other: Operand, alpha: Operand = 1) -> Array:
    x, y = computed(self, other)
    if x.dtype == jnp.bool_:
        return x | (y & (alpha != 0))
    return x + _scaled(y, alpha)


@lowering("aten::sub.Tensor", "aten::sub.Scalar")
def sub(self: Array, other: Operand, alpha: Operand = 1) -> Array:
    x, y = computed(self, other)
    return x - _scaled(y, alpha)


@lowering("aten::rsub.Tensor", "aten::rsub.Scalar")
def rsub(self: Array, other: Operand, alpha: Operand = 1) -> Array:
    x, y = computed(self, other)
    return y - _scaled(x, alpha)


@lowering("aten::mul.Tensor", "aten::mul.Scalar")
def mul(self: Array, other: Operand) -> Array:
    x, y = computed(self, other)
    return x & y if x.dtype == jnp.bool_ else x * y


@lowering("aten::div.Tensor", "aten::div.Scalar")
def div(self: Array, other: Operand) -> Array:
    x, y = floats(self, other)
    return x / y


@lowering("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def div_mode(self: Array, other: Operand, *, rounding_mode: str | None) -> Array:
    if rounding_mode is None:
        return div(self, other)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    x, y = computed(self, other)
    if _is_float(x):
        # In half precision, the quotient is rounded before truncation, possibly up to an integer.
        return jnp.trunc(convert(x / y, result_type(self, other)))
    x, y = _whole(x), _whole(y)
    return lax.div(*jnp.broadcast_arrays(x, y))


@lowering("prims::div")
def cut_quotient(self: Array, other: Operand) -> Array:
    """Divide, truncating integer quotients."""
    inexact = _is_inexact(computed(self, other)[0])
    return div_mode(self, other, rounding_mode=None if inexact else "trunc")


@lowering("aten::floor_divide", "aten::floor_divide.Scalar")
def floor_divide(self: Array, other: Operand) -> Array:
    x, y = computed(self, other)
    if not _is_float(x):
        return jnp.floor_divide(_whole(x), _whole(y))
    # Like Python, subtract the remainder before dividing.
    rest = _float_remainder(x, y, sign_of_divisor=False)
    quotient = (x - rest) / y
    quotient = jnp.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    floor = jnp.floor(quotient)
    floor = jnp.where(quotient - floor > 0.5, floor + 1, floor)
    result = jnp.where(quotient == 0, jnp.copysign(jnp.zeros_like(floor), x / y), floor)
    return jnp.where(y == 0, x / y, result)


@lowering("aten::fmod.Tensor", "aten::fmod.Scalar")
def fmod(self: Array, other: Operand) -> Array:
    x, y = computed(self, other)
    if _is_float(x):
        return _float_remainder(x, y, sign_of_divisor=False)
    return lax.rem(*jnp.broadcast_arrays(_whole(x), _whole(y)))


@lowering("aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor")
def remainder(self: Operand, other: Operand) -> Array:
    x, y = computed(self, other)
    if _is_float(x):
        return _float_remainder(x, y, sign_of_divisor=True)
    x, y = _whole(x), _whole(y)
    rest = lax.rem(*jnp.broadcast_arrays(x, y))
    return jnp.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)


@lowering("aten::pow.Tensor_Tensor", "aten::pow.Scalar")
def power(self: Operand, exponent: Operand) -> Array:
    x, y = computed(self, exponent)
    if _is_inexact(x):
        return jnp.power(x, y)
    x, y = _whole(x), _whole(y)
    if isinstance(exponent, int) and 0 <= exponent < 64:
        return lax.integer_pow(x, exponent)
    # An integer cannot represent 1/x, so a negative exponent gives 0 unless x is 1 or -1.
    odd = jnp.where(y & 1 == 1, -1, 1).astype(x.dtype)
    inverse = jnp.where(x == 1, 1, jnp.where(x + 1 == 0, odd, 0)).astype(x.dtype)
    return jnp.where(y < 0, inverse, _whole_power(x, jnp.maximum(y, 0)))


@lowering("aten::pow.Tensor_Scalar")
def power_scalar(self: Array, exponent: Operand) -> Array:
    if isinstance(exponent, int | float):
        (x,) = computed(self)
        if _is_float(x):
            if exponent == 0.5:
                return jnp.sqrt(x)
            if exponent == -0.5:
                return lax.rsqrt(x)
            if abs(exponent) <= 3 and exponent == int(exponent):
                return lax.integer_pow(x, int(exponent))
    return power(self, exponent)


@lowering(
    "aten::float_power.Tensor_Tensor",
    "aten::float_power.Tensor_Scalar",
    "aten::float_power.Scalar",
)
def float_power(self: Operand, exponent: Operand) -> Array:
    inexact = result_type(self, exponent).is_complex
    dtype = torch.complex128 if inexact else torch.float64
    return jnp.power(convert(self, dtype), convert(exponent, dtype))


@lowering("aten::atan2")
def atan2(self: Array, other: Array) -> Array:
    return jnp.arctan2(*floats(self, other))


@lowering("aten::copysign.Tensor", "aten::copysign.Scalar")
def copysign(self: Array, other: Operand) -> Array:
    if isinstance(other, float | int):
        x, y = floats(self, float(other))
    else:
        x, y = floats(self, other)
    return jnp.copysign(x, y)


@lowering("aten::nextafter")
def nextafter(self: Array, other: Array) -> Array:
    return jnp.nextafter(*common(self, other))


@lowering("aten::hypot")
def hypot(self: Array, other: Array) -> Array:
    return jnp.hypot(*computed(self, other))


@lowering("aten::maximum", "aten::max.other")
def maximum(self: Array, other: Array) -> Array:
    return jnp.maximum(*common(self, other))


@lowering("aten::minimum", "aten::min.other")
def minimum(self: Array, other: Array) -> Array:
    return jnp.minimum(*common(self, other))


@lowering("aten::fmax")
def fmax(self: Array, other: Array) -> Array:
    x, y = common(self, other)
    return jnp.fmax(x, y) if _is_float(x) else jnp.maximum(x, y)


@lowering("aten::fmin")
def fmin(self: Array, other: Array) -> Array:
    x, y = common(self, other)
    return jnp.fmin(x, y) if _is_float(x) else jnp.minimum(x, y)


@lowering("aten::gcd")
def gcd(self: Array, other: Array) -> Array:
    # Use Euclid's algorithm as on the CPU, with remainders that have the sign of the dividend.
    # jnp.gcd does not terminate for the smallest integer, whose absolute value is itself.
    def step(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        x, y = pair
        is_done = x == 0
        remainder = lax.rem(y, jnp.where(is_done, 1, x))
        return jnp.where(is_done, x, remainder), jnp.where(is_done, y, x)

    x, y = jnp.broadcast_arrays(*(jnp.abs(each) for each in common(self, other)))
    return lax.while_loop(lambda pair: (pair[0] != 0).any(), step, (x, y))[1]


@lowering("aten::lcm")
def lcm(self: Array, other: Array) -> Array:
    x, y = jnp.broadcast_arrays(*common(self, other))
    divisor = gcd(x, y)
    dtype = x.dtype
    divisor = jnp.where(divisor == 0, 1, divisor)
    # C++ promotes smaller integers to int32, and converts only the final absolute value back.
    if x.dtype.itemsize < 4:
        x, y, divisor = (each.astype(jnp.int32) for each in (x, y, divisor))
    return jnp.abs(lax.div(x, divisor) * y).astype(dtype)


@lowering("aten::ldexp.Tensor")
def ldexp(self: Array, other: Array) -> Array:
    if jnp.issubdtype(other.dtype, jnp.inexact):
        return mul(self, power(2.0, other))
    # Multiply by exact powers of two, because a power function may be inexact.
    dtype = floating(result_type(2.0, other))
    exponent = other.astype(jnp.int32)
    return mul(self, jnp.ldexp(convert(1.0, dtype), exponent))


@lowering("aten::logaddexp")
def logaddexp(self: Array, other: Array) -> Array:
    return log_of_sum(*floats(self, other))


def log_of_sum(x: Array, y: Array) -> Array:
    """Return log(exp(x) + exp(y)), without wrapping the imaginary part to [-pi, pi]."""
    if not jnp.issubdtype(x.dtype, jnp.complexfloating):
        return jnp.logaddexp(x, y)
    less, more = jnp.where(x.real < y.real, x, y), jnp.where(x.real < y.real, y, x)
    both_infinite = jnp.isinf(x.real) & (x.real == y.real)
    at_infinity = jnp.where(x.real < 0, less, jnp.log(jnp.exp(less) + jnp.exp(more)))
    return jnp.where(both_infinite, at_infinity, more + jnp.log1p(jnp.exp(less - more)))


@lowering("aten::logaddexp2")
def logaddexp2(self: Array, other: Array) -> Array:
    return jnp.logaddexp2(*floats(self, other))


@lowering("aten::heaviside")
def heaviside(self: Array, values: Array) -> Array:
    x, y = common(self, values)
    return jnp.where(x == 0, y, (x > 0).astype(x.dtype))


def _times_log(x: Array, y: Array, log: Array) -> Array:
    zero = jnp.where(x == 0, jnp.zeros((), log.dtype), x * log)
    return jnp.where(jnp.isnan(y), y, zero)


@lowering("aten::xlogy.Tensor", "aten::xlogy.Scalar_Other", "aten::xlogy.Scalar_Self")
def xlogy(self: Operand, other: Operand) -> Array:
    x, y = floats(self, other)
    return _times_log(x, y, jnp.log(y))


@lowering(
    "aten::special_xlog1py",
    "aten::special_xlog1py.other_scalar",
    "aten::special_xlog1py.self_scalar",
)
def xlog1py(self: Operand, other: Operand) -> Array:
    x, y = floats(self, other)
    return _times_log(x, y, jnp.log1p(y))


@lowering("aten::dist")
def dist(self: Array, other: Array, p: Operand = 2) -> Array:
    x, y = computed(self, other)
    size = jnp.abs(x - y)
    if p == 0:
        return jnp.sum(size != 0).astype(size.dtype)
    if size.size == 0:
        return jnp.zeros((), size.dtype)
    if p == float("inf"):
        return jnp.max(size)
    if p == float("-inf"):
        return jnp.min(size)
    if p == 2:
        return jnp.sqrt(jnp.sum(size * size))
    return jnp.sum(size**p) ** (1 / p)


@lowering("aten::complex")
def complex_(real: Array, imag: Array) -> Array:
    return lax.complex(*jnp.broadcast_arrays(*computed(real, imag)))


@lowering("aten::polar")
def polar(abs: Array, angle: Array) -> Array:  # noqa: A002 (the schema's name)
    size, turn = computed(abs, angle)
    return lax.complex(*jnp.broadcast_arrays(size * jnp.cos(turn), size * jnp.sin(turn)))


@lowering("aten::lerp.Scalar", "aten::lerp.Tensor")
def lerp(self: Array, end: Array, weight: Operand) -> Array:
    dtype = wide(result_type(self, end))
    x, y = convert(self, dtype), convert(end, dtype)
    w = convert(weight, wide(result_type(self, end, weight)) if dtype.is_complex else dtype)
    return jnp.where(jnp.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w))


@lowering("aten::addcmul")
def addcmul(self: Array, tensor1: Array, tensor2: Array, *, value: Operand = 1) -> Array:
    x, y, z = computed(self, tensor1, tensor2)
    if x.dtype == jnp.bool_:
        return x | (y & z & (value != 0))
    return x + _scaled(y, value) * z


@lowering("aten::addcdiv")
def addcdiv(self: Array, tensor1: Array, tensor2: Array, *, value: Operand = 1) -> Array:
    x, y, z = floats(self, tensor1, tensor2)
    return x + _scaled(y, value) / z


def _whole(x: Array) -> Array:
    return x.astype(jnp.uint8) if x.dtype == jnp.bool_ else x


def _whole_power(x: Array, y: Array) -> Array:
    # Square repeatedly, for each bit of the exponent, so that overflow wraps around as in torch.
    def step(bit: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        result, square = state
        taken = (lax.shift_right_logical(y, bit.astype(y.dtype)) & 1) == 1
        return jnp.where(taken, result * square, result), square * square

    x, y = jnp.broadcast_arrays(x, y)
    return lax.fori_loop(0, x.dtype.itemsize * 8, step, (jnp.ones_like(x), x))[0]


def _float_remainder(x: Array, y: Array, *, sign_of_divisor: bool) -> Array:
    rest = lax.rem(*jnp.broadcast_arrays(x, y))
    if not sign_of_divisor:
        return rest
    return jnp.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)
