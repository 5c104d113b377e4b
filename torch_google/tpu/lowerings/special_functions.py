# SPDX-License-Identifier: Apache-2.0
"""Special functions: error functions, gamma functions and zeta functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special as known

from torch_google.tpu.lowerings.promotion import Array, Operand, floats
from torch_google.tpu.lowerings.table import lowering

_FAR = 8.0  # from here on, five terms of the series for erfcx are exact in float32
# A loop in `zeta` adds the terms of the series whose arguments are negative, closest to zero first.
# It stops after this many terms, because further ones are negligible.
_NEGATIVE_TERMS = 1 << 16


def erf(x: Array) -> Array:
    """Return the error function.

    In float32, XLA's values exceed 1 by a rounding error. Then `1 + erf(x)`, the probability in
    torch.distributions.Normal.cdf, would be negative, and its logarithm NaN.
    """
    return jnp.clip(lax.erf(x), -1, 1)


def _erfcx(x: Array) -> Array:
    """Return exp(x^2) erfc(x). In float32, XLA flushes erfc(x) to zero from x = 9.2 on."""
    if x.dtype == jnp.float64:
        return known.erfcx(x)
    far = jnp.maximum(x, _FAR)
    square = 0.5 / (far * far)
    series = 1 - square * (1 - 3 * square * (1 - 5 * square * (1 - 7 * square)))
    return jnp.where(x > _FAR, series / (far * math.sqrt(math.pi)), known.erfcx(x))


def _entr(x: Array) -> Array:
    inside = jnp.where(x > 0, -x * jnp.log(jnp.where(x > 0, x, 1)), 0)
    return jnp.where(jnp.isnan(x), x, jnp.where(x < 0, -jnp.inf, inside))


def _digamma(x: Array) -> Array:
    pole = jnp.where(x == 0, jnp.copysign(jnp.inf, -x), jnp.nan)
    return jnp.where((x == jnp.floor(x)) & (x <= 0), pole, lax.digamma(x))


def _lgamma(x: Array) -> Array:
    pole = (x == jnp.floor(x)) & (x <= 0)
    return jnp.where(pole | jnp.isinf(x), jnp.inf, lax.lgamma(x))


def _trigamma(x: Array) -> Array:
    # For x < 0.5, use the reflection formula, so that zeta's argument is positive.
    mirrored = jnp.where(x < 0.5, 1 - x, x)
    value = zeta(jnp.full_like(x, 2.0), mirrored)
    return jnp.where(x < 0.5, (np.pi / jnp.sin(np.pi * x)) ** 2 - value, value)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "digamma": _digamma,
    "erf": erf,
    "erfc": lax.erfc,
    "erfinv": lax.erf_inv,
    "lgamma": _lgamma,
    "special_entr": _entr,
    "special_erfcx": _erfcx,
    "special_log_ndtr": known.log_ndtr,
    "special_ndtri": known.ndtri,
}


def _register(name: str, function: Callable[[Array], Array]) -> None:
    def lower(self: Array) -> Array:
        (x,) = floats(self)
        return function(x)

    lowering(f"aten::{name}")(lower)


for _name, _function in _FUNCTIONS.items():
    _register(_name, _function)


@lowering("aten::special_zeta", "aten::special_zeta.self_scalar", "aten::special_zeta.other_scalar")
def zeta(self: Operand, other: Operand) -> Array:
    """Return the Hurwitz zeta function for x > 1. If `other` is negative, x must be an integer."""
    x, q = jnp.broadcast_arrays(*floats(self, other))
    fractional = jnp.isfinite(q) & (q != jnp.floor(q))
    below = jnp.where(fractional, jnp.maximum(jnp.ceil(-q), 0), 0)
    terms = jnp.minimum(jnp.max(below, initial=0), _NEGATIVE_TERMS)
    nearest = q + below - 1

    def add_term(state: tuple[Array, Array]) -> tuple[Array, Array]:
        k, total = state
        return k + 1, total + jnp.where(k < below, _signed_power(nearest - k, -x), 0)

    begin = (jnp.zeros((), q.dtype), jnp.zeros_like(q))
    _, head = lax.while_loop(lambda state: state[0] < terms, add_term, begin)
    value = head + lax.zeta(jnp.where(x > 1, x, 2), jnp.where(q > 0, q, q + below + (q == 0)))
    value = jnp.where((q < 0) & (x != jnp.floor(x)), jnp.nan, value)
    value = jnp.where(jnp.isnan(x) | jnp.isnan(q), jnp.nan, value)
    value = jnp.where((q <= 0) & (q == jnp.floor(q)), jnp.inf, value)
    return jnp.where(x == 1, jnp.inf, jnp.where(x < 1, jnp.nan, value))


def _signed_power(base: Array, exponent: Array) -> Array:
    size = jnp.power(jnp.abs(base), exponent)
    odd = jnp.remainder(exponent, 2) == 1
    return jnp.where((base < 0) & odd, -size, size)


@lowering("aten::polygamma")
def polygamma(n: int, self: Array) -> Array:
    (x,) = floats(self)
    if n == 0:
        return _digamma(x)
    if n == 1:
        return _trigamma(x)
    # Compute in double precision. In float32, every result would lose a digit. Below zero, most
    # digits would be lost, because terms of both signs cancel.
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    sign = 1.0 if n % 2 else -1.0
    x = x.astype(jnp.float64)
    return sign * factorial * zeta(jnp.full_like(x, n + 1), x)


@lowering("aten::igamma", "aten::special_gammainc")
def igamma(self: Array, other: Array) -> Array:
    a, x = jnp.broadcast_arrays(*floats(self, other))
    return _regularized(a, x, lax.igamma(*_inside(a, x)), at_zero=0.0, at_infinity=1.0)


@lowering("aten::igammac", "aten::special_gammaincc")
def igammac(self: Array, other: Array) -> Array:
    a, x = jnp.broadcast_arrays(*floats(self, other))
    return _regularized(a, x, lax.igammac(*_inside(a, x)), at_zero=1.0, at_infinity=0.0)


def _inside(a: Array, x: Array) -> tuple[Array, Array]:
    usual = (a > 0) & (x > 0) & jnp.isfinite(a) & jnp.isfinite(x)
    return jnp.where(usual, a, 1), jnp.where(usual, x, 1)


def _regularized(a: Array, x: Array, value: Array, *, at_zero: float, at_infinity: float) -> Array:
    """Set the values at the limits: first x = 0 and infinity, then a = infinity and 0."""
    value = jnp.where(jnp.isnan(a) | jnp.isnan(x), jnp.nan, value)
    value = jnp.where(x == 0, at_zero, jnp.where(jnp.isinf(x), at_infinity, value))
    value = jnp.where(jnp.isinf(a), jnp.where(jnp.isinf(x), jnp.nan, at_zero), value)
    value = jnp.where(a == 0, jnp.where(x > 0, at_infinity, jnp.nan), value)
    return jnp.where((a < 0) | (x < 0), jnp.nan, value)
