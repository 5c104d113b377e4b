# SPDX-License-Identifier: Apache-2.0
"""Bessel and Airy functions, computed with Chebyshev series.

JAX has only some of these functions. The others are combinations of known singular or oscillating
factors and smooth functions. Each smooth function is interpolated once per process, from SciPy's
float64 values at Chebyshev points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.scipy import special as known
from scipy import special as exact

from torch_google.tpu.lowerings.promotion import Array, floats
from torch_google.tpu.lowerings.table import lowering

_DEGREE = 40
_EDGE = 8.0  # the x at which the series around zero and around infinity meet
_LIFT = 1e-9  # keeps sample points away from a singular end of the interval

_Function = Callable[[np.ndarray], np.ndarray]


def _smooth(function: _Function, low: float, high: float, x: Array) -> Array:
    """Evaluate the interpolant of a function on [low, high], by Clenshaw's recurrence."""
    series = _series(function, low, high)
    t = (2 * x - (low + high)) / (high - low)
    ahead, further = jnp.zeros_like(t), jnp.zeros_like(t)
    for factor in series[:0:-1]:
        ahead, further = 2 * t * ahead - further + factor, ahead
    return t * ahead - further + series[0]


@functools.cache
def _series(function: _Function, low: float, high: float) -> tuple[float, ...]:
    def scaled(t: np.ndarray) -> np.ndarray:
        return function((t * (high - low) + low + high) / 2)

    coefficients = np.polynomial.chebyshev.chebinterpolate(scaled, _DEGREE)
    last = int(np.nonzero(np.abs(coefficients) > 1e-17 * np.abs(coefficients).max())[0][-1])
    return tuple(float(factor) for factor in coefficients[: last + 1])


def _near(x: Array, edge: float) -> Array:
    return jnp.clip(x, 0, edge)


# Beyond _EDGE, J and Y share an amplitude and a phase, which are smooth functions of 1/x**2.
@functools.cache
def _phase_parts(order: int) -> tuple[_Function, _Function]:
    shift = np.pi / 4 + order * np.pi / 2
    bessel_j, bessel_y = (exact.j0, exact.y0) if order == 0 else (exact.j1, exact.y1)

    def parts(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = _EDGE / np.sqrt(np.maximum(u, _LIFT))
        root = np.sqrt(np.pi * x / 2)
        turn = x - shift
        along = root * (bessel_j(x) * np.cos(turn) + bessel_y(x) * np.sin(turn))
        across = root * (bessel_y(x) * np.cos(turn) - bessel_j(x) * np.sin(turn))
        return x, along, across

    def cosine(u: np.ndarray) -> np.ndarray:
        return parts(u)[1]

    def sine(u: np.ndarray) -> np.ndarray:
        x, _, across = parts(u)
        return across * x

    return cosine, sine


def _far(order: int, x: Array, *, second_kind: bool) -> Array:
    x = jnp.maximum(x, _EDGE)
    cosine, sine = _phase_parts(order)
    u = (_EDGE / x) ** 2
    along, across = _smooth(cosine, 0.0, 1.0, u), _smooth(sine, 0.0, 1.0, u) / x
    turn = x - (np.pi / 4 + order * np.pi / 2)
    if second_kind:
        wave = along * jnp.sin(turn) + across * jnp.cos(turn)
    else:
        wave = along * jnp.cos(turn) - across * jnp.sin(turn)
    return jnp.where(jnp.isinf(x), 0, wave * jnp.sqrt(2 / (np.pi * x)))


def _j0_square(u: np.ndarray) -> np.ndarray:
    return exact.j0(np.sqrt(u))


def _j1_square(u: np.ndarray) -> np.ndarray:
    x = np.sqrt(np.maximum(u, _LIFT))
    return exact.j1(x) / x


def _y0_rest(u: np.ndarray) -> np.ndarray:
    x = np.sqrt(np.maximum(u, _LIFT))
    return exact.y0(x) - 2 / np.pi * np.log(x) * exact.j0(x)


def _y1_rest(u: np.ndarray) -> np.ndarray:
    x = np.sqrt(np.maximum(u, 1e-4))
    return (exact.y1(x) - 2 / np.pi * (np.log(x) * exact.j1(x) - 1 / x)) / x


@lowering("aten::special_bessel_j0")
def bessel_j0(self: Array) -> Array:
    (x,) = floats(self)
    size = jnp.abs(x)
    near = _smooth(_j0_square, 0.0, _EDGE**2, _near(size, _EDGE) ** 2)
    return _nan_too(x, jnp.where(size <= _EDGE, near, _far(0, size, second_kind=False)))


@lowering("aten::special_bessel_j1")
def bessel_j1(self: Array) -> Array:
    (x,) = floats(self)
    size = jnp.abs(x)
    low = _near(size, _EDGE)
    near = low * _smooth(_j1_square, 0.0, _EDGE**2, low**2)
    value = jnp.where(size <= _EDGE, near, _far(1, size, second_kind=False))
    return _nan_too(x, jnp.where(x < 0, -value, value))


@lowering("aten::special_bessel_y0")
def bessel_y0(self: Array) -> Array:
    (x,) = floats(self)
    low = _near(x, _EDGE)
    near = _smooth(_y0_rest, 0.0, _EDGE**2, low**2) + 2 / np.pi * jnp.log(low) * bessel_j0(low)
    return _positive(x, jnp.where(x <= _EDGE, near, _far(0, x, second_kind=True)), -jnp.inf)


@lowering("aten::special_bessel_y1")
def bessel_y1(self: Array) -> Array:
    (x,) = floats(self)
    low = _near(x, _EDGE)
    pole = 2 / np.pi * (jnp.log(low) * bessel_j1(low) - 1 / low)
    near = low * _smooth(_y1_rest, 0.0, _EDGE**2, low**2) + pole
    return _positive(x, jnp.where(x <= _EDGE, near, _far(1, x, second_kind=True)), -jnp.inf)


def _k0_rest(u: np.ndarray) -> np.ndarray:
    x = np.sqrt(np.maximum(u, _LIFT))
    return exact.k0(x) + np.log(x / 2) * exact.i0(x)


def _k1_rest(u: np.ndarray) -> np.ndarray:
    x = np.sqrt(np.maximum(u, 1e-4))
    return (exact.k1(x) - np.log(x / 2) * exact.i1(x) - 1 / x) / x


def _k0_tail(t: np.ndarray) -> np.ndarray:
    x = 2 / np.maximum(t, _LIFT)
    return exact.k0e(x) * np.sqrt(x)


def _k1_tail(t: np.ndarray) -> np.ndarray:
    x = 2 / np.maximum(t, _LIFT)
    return exact.k1e(x) * np.sqrt(x)


def _k(x: Array, order: int, *, scaled: bool) -> Array:
    low, high = _near(x, 2.0), jnp.maximum(x, 2.0)
    if order == 0:
        near = _smooth(_k0_rest, 0.0, 4.0, low**2) - jnp.log(low / 2) * known.i0(low)
        tail = _smooth(_k0_tail, 0.0, 1.0, 2 / high)
    else:
        near = low * _smooth(_k1_rest, 0.0, 4.0, low**2) + jnp.log(low / 2) * known.i1(low)
        near = near + 1 / low
        tail = _smooth(_k1_tail, 0.0, 1.0, 2 / high)
    tail = tail / jnp.sqrt(high)
    value = jnp.where(
        x <= 2,
        near * jnp.exp(low) if scaled else near,
        tail if scaled else tail * jnp.exp(-high),
    )
    return _positive(x, value, jnp.inf)


@lowering("aten::special_modified_bessel_k0")
def modified_bessel_k0(self: Array) -> Array:
    return _k(floats(self)[0], 0, scaled=False)


@lowering("aten::special_modified_bessel_k1")
def modified_bessel_k1(self: Array) -> Array:
    return _k(floats(self)[0], 1, scaled=False)


@lowering("aten::special_scaled_modified_bessel_k0")
def scaled_modified_bessel_k0(x: Array) -> Array:
    return _k(floats(x)[0], 0, scaled=True)


@lowering("aten::special_scaled_modified_bessel_k1")
def scaled_modified_bessel_k1(x: Array) -> Array:
    return _k(floats(x)[0], 1, scaled=True)


@lowering("aten::special_modified_bessel_i0", "aten::i0", "aten::special_i0")
def i0(self: Array) -> Array:
    return known.i0(floats(self)[0])


@lowering("aten::special_modified_bessel_i1", "aten::special_i1")
def i1(self: Array) -> Array:
    return known.i1(floats(self)[0])


@lowering("aten::special_i0e")
def i0e(self: Array) -> Array:
    # In float32, JAX's value near 0 exceeds the maximum by a rounding error.
    return jnp.minimum(known.i0e(floats(self)[0]), 1)


@lowering("aten::special_i1e")
def i1e(self: Array) -> Array:
    return known.i1e(floats(self)[0])


@lowering("aten::special_spherical_bessel_j0")
def spherical_bessel_j0(x: Array) -> Array:
    (point,) = floats(x)
    square = point * point
    near = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72)))
    far = jnp.where(jnp.isinf(point), 0, jnp.sin(point) / point)
    return jnp.where(jnp.abs(point) < 0.5, near, far)


def _airy_middle(x: np.ndarray) -> np.ndarray:
    return exact.airy(x)[0]


# Far from zero, all factors are smooth functions of 1/x**1.5, because the phase and the exponent
# are proportional to x**1.5.
def _airy_tail(u: np.ndarray) -> np.ndarray:
    x = 2 / np.maximum(u, _LIFT) ** (2 / 3)
    return exact.airye(x)[0] * x**0.25


@functools.cache
def _airy_wave() -> tuple[_Function, _Function]:
    def parts(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = 4 / np.maximum(u, _LIFT) ** (2 / 3)
        turn = 2 / 3 * x**1.5 + np.pi / 4
        first, _, second, _ = exact.airy(-x)
        root = np.sqrt(np.pi) * x**0.25
        return (
            root * (first * np.sin(turn) + second * np.cos(turn)),
            root * (second * np.sin(turn) - first * np.cos(turn)),
        )

    def sine(u: np.ndarray) -> np.ndarray:
        return parts(u)[0]

    def cosine(u: np.ndarray) -> np.ndarray:
        return parts(u)[1]

    return sine, cosine


@lowering("aten::special_airy_ai")
def airy_ai(x: Array) -> Array:
    (point,) = floats(x)
    middle = _smooth(_airy_middle, -4.0, 2.0, jnp.clip(point, -4, 2))
    high = jnp.maximum(point, 2)
    decay = high * jnp.sqrt(high)
    tail = _smooth(_airy_tail, 0.0, 1.0, 2**1.5 / decay) / high**0.25
    tail = tail * jnp.exp(-2 / 3 * decay)
    low = jnp.maximum(-point, 4)
    growth = low * jnp.sqrt(low)
    sine, cosine = _airy_wave()
    turn = 2 / 3 * growth + np.pi / 4
    wave = _smooth(sine, 0.0, 1.0, 8 / growth) * jnp.sin(turn)
    wave = wave - _smooth(cosine, 0.0, 1.0, 8 / growth) * jnp.cos(turn)
    wave = wave / (low**0.25 * np.sqrt(np.pi))
    value = jnp.where(point > 2, tail, jnp.where(point < -4, wave, middle))
    return jnp.where(jnp.isfinite(point), value, jnp.where(point > 0, 0, jnp.nan))


def _positive(x: Array, value: Array, at_zero: float) -> Array:
    value = jnp.where(x == 0, at_zero, jnp.where(x < 0, jnp.nan, value))
    return _nan_too(x, value)


def _nan_too(x: Array, value: Array) -> Array:
    return jnp.where(jnp.isnan(x), x, value)
