# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from torch_google.tpu.lowerings.promotion import Array, Scalar, computed, floats
from torch_google.tpu.lowerings.table import lowering


def _is_complex(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.complexfloating)


def _is_float(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + jnp.exp(-x)) if _is_complex(x) else lax.logistic(x)


def _rsqrt(x: Array) -> Array:
    return 1 / jnp.sqrt(x) if _is_complex(x) else lax.rsqrt(x)


def _exp2(x: Array) -> Array:
    if _is_complex(x):
        return jnp.exp(x * jnp.log(2.0).astype(x.dtype))
    # Split off the integer part of x, because exp(x * log(2)) is wrong in the last digits for large
    # exponents.
    rounded = jnp.clip(jnp.round(x), -1200, 1200)
    power = jnp.ldexp(jnp.exp2(x - rounded), rounded.astype(jnp.int32))
    return jnp.where(jnp.isnan(x), x, power)


def _sinc(x: Array) -> Array:
    return jnp.where(x == 0, jnp.ones((), x.dtype), jnp.sin(jnp.pi * x) / (jnp.pi * x))


_FLOAT: dict[str, Callable[[Array], Array]] = {
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atanh": jnp.arctanh,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "deg2rad": lambda x: x * (jnp.pi / 180),
    "exp": jnp.exp,
    "exp2": _exp2,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "rad2deg": lambda x: x * (180 / jnp.pi),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "sin": jnp.sin,
    "sinc": _sinc,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
}


def _register(name: str, function: Callable[[Array], Array]) -> None:
    def lower(self: Array) -> Array:
        (x,) = floats(self)
        return function(x)

    lowering(f"aten::{name}")(lower)


for _name, _function in _FLOAT.items():
    _register(_name, _function)


@lowering("aten::abs")
def absolute(self: Array) -> Array:
    return jnp.abs(self)


@lowering("aten::neg")
def neg(self: Array) -> Array:
    return jnp.negative(self)


@lowering("aten::positive")
def positive(self: Array) -> Array:
    return self


@lowering("aten::square")
def square(self: Array) -> Array:
    (x,) = computed(self)
    return x * x


@lowering("aten::sign")
def sign(self: Array) -> Array:
    if self.dtype == jnp.bool_:
        return self
    return (self > 0).astype(self.dtype) - (self < 0).astype(self.dtype)


@lowering("aten::sgn")
def sgn(self: Array) -> Array:
    if not _is_complex(self):
        return sign(self)
    size = jnp.abs(self)
    return jnp.where(size == 0, 0, self / size)


@lowering("aten::angle")
def angle(self: Array) -> Array:
    if _is_complex(self):
        return lax.atan2(self.imag, self.real)
    (x,) = floats(self)
    return jnp.where(x < 0, jnp.pi, jnp.where(jnp.isnan(x), x, 0))


def _rounding(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def lower(self: Array) -> Array:
        return function(self) if _is_float(self) else self

    return lower


lowering("aten::ceil")(_rounding(lax.ceil))
lowering("aten::floor")(_rounding(lax.floor))
lowering("aten::trunc")(_rounding(jnp.trunc))


@lowering("aten::round")
def round_(self: Array) -> Array:
    if not _is_float(self):
        return self
    return lax.round(self, lax.RoundingMethod.TO_NEAREST_EVEN)


@lowering("aten::round.decimals")
def round_decimals(self: Array, *, decimals: int) -> Array:
    if decimals == 0 or not _is_float(self):
        return round_(self)
    (x,) = computed(self)
    scale = jnp.asarray(10.0 ** abs(decimals), x.dtype)
    return round_(x * scale) / scale if decimals > 0 else round_(x / scale) * scale


@lowering("aten::frac")
def frac(self: Array) -> Array:
    return self - jnp.trunc(self)


@lowering("aten::frexp.Tensor")
def frexp(self: Array) -> tuple[Array, Array]:
    (x,) = computed(self)
    mantissa, exponent = jnp.frexp(x)
    finite = jnp.isfinite(x)
    return jnp.where(finite, mantissa, x), jnp.where(finite, exponent, 0)


@lowering("aten::logit")
def logit(self: Array, eps: Scalar | None = None) -> Array:
    (x,) = floats(self)
    if eps is not None:
        x = jnp.clip(x, eps, 1 - eps)
    return jnp.log(x / (1 - x))


@lowering("aten::nan_to_num")
def nan_to_num(
    self: Array,
    nan: Scalar | None = None,
    posinf: Scalar | None = None,
    neginf: Scalar | None = None,
) -> Array:
    if not (_is_float(self) or _is_complex(self)):
        return self
    zero = 0.0 if nan is None else nan
    return jnp.nan_to_num(self, nan=zero, posinf=posinf, neginf=neginf)


@lowering("aten::conj", "aten::_conj", "aten::_conj_physical", "aten::conj_physical")
def conj(self: Array) -> Array:
    return jnp.conj(self) if _is_complex(self) else self


@lowering("aten::real")
def real(self: Array) -> Array:
    return self.real if _is_complex(self) else self


@lowering("aten::imag")
def imag(self: Array) -> Array:
    return self.imag


@lowering("aten::isnan")
def isnan(self: Array) -> Array:
    return self != self


@lowering("aten::isinf")
def isinf(self: Array) -> Array:
    return jnp.isinf(self)


@lowering("aten::isfinite")
def isfinite(self: Array) -> Array:
    return jnp.isfinite(self)


@lowering("aten::isposinf")
def isposinf(self: Array) -> Array:
    return self == jnp.inf if _is_float(self) else jnp.zeros(self.shape, jnp.bool_)


@lowering("aten::isneginf")
def isneginf(self: Array) -> Array:
    return self == -jnp.inf if _is_float(self) else jnp.zeros(self.shape, jnp.bool_)


@lowering("aten::signbit")
def signbit(self: Array) -> Array:
    if self.dtype == jnp.bool_:
        return jnp.zeros_like(self)
    return jnp.signbit(self) if _is_float(self) else self < 0


@lowering("aten::logical_not")
def logical_not(self: Array) -> Array:
    return self == 0


@lowering("aten::bitwise_not")
def bitwise_not(self: Array) -> Array:
    return jnp.bitwise_not(self)


@lowering("aten::relu")
def relu(self: Array) -> Array:
    return jnp.maximum(self, jnp.zeros((), self.dtype))


@lowering("aten::sigmoid_backward")
def sigmoid_backward(grad_output: Array, output: Array) -> Array:
    grad, out = computed(grad_output, output)
    return grad * jnp.conj((1 - out) * out)


@lowering("aten::tanh_backward")
def tanh_backward(grad_output: Array, output: Array) -> Array:
    grad, out = computed(grad_output, output)
    return grad * jnp.conj(1 - out * out)
