# SPDX-License-Identifier: Apache-2.0
"""Orthogonal polynomials of degree n at x: Chebyshev, Hermite, Laguerre and Legendre.

Each element may have a different degree, which is truncated to an integer. If the degree is
negative, the result is zero.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from torch_google.tpu.lowerings.promotion import Array, Operand, floats
from torch_google.tpu.lowerings.table import lowering

_Recurrence = Callable[[Array, Array, Array, Array], Array]


def _chebyshev(k: Array, x: Array, now: Array, before: Array) -> Array:
    return 2 * x * now - before


def _hermite_h(k: Array, x: Array, now: Array, before: Array) -> Array:
    return 2 * x * now - 2 * k * before


def _hermite_he(k: Array, x: Array, now: Array, before: Array) -> Array:
    return x * now - k * before


def _laguerre(k: Array, x: Array, now: Array, before: Array) -> Array:
    return ((2 * k + 1 - x) * now - k * before) / (k + 1)


def _legendre(k: Array, x: Array, now: Array, before: Array) -> Array:
    return ((2 * k + 1) * x * now - k * before) / (k + 1)


def _shifted(x: Array) -> Array:
    return 2 * x - 1


def _same(x: Array) -> Array:
    return x


# For each family: a transform of x, the polynomial of degree 1, and the step from degree k to k +
# 1.
_FAMILIES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], _Recurrence]] = {
    "chebyshev_polynomial_t": (_same, lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (_same, lambda x: 2 * x, _chebyshev),
    "chebyshev_polynomial_v": (_same, lambda x: 2 * x - 1, _chebyshev),
    "chebyshev_polynomial_w": (_same, lambda x: 2 * x + 1, _chebyshev),
    "shifted_chebyshev_polynomial_t": (_shifted, lambda x: x, _chebyshev),
    "shifted_chebyshev_polynomial_u": (_shifted, lambda x: 2 * x, _chebyshev),
    "shifted_chebyshev_polynomial_v": (_shifted, lambda x: 2 * x - 1, _chebyshev),
    "shifted_chebyshev_polynomial_w": (_shifted, lambda x: 2 * x + 1, _chebyshev),
    "hermite_polynomial_h": (_same, lambda x: 2 * x, _hermite_h),
    "hermite_polynomial_he": (_same, lambda x: x, _hermite_he),
    "laguerre_polynomial_l": (_same, lambda x: 1 - x, _laguerre),
    "legendre_polynomial_p": (_same, lambda x: x, _legendre),
}


def _polynomial(
    argument: Callable[[Array], Array], first: Callable[[Array], Array], step: _Recurrence
) -> Callable[[Operand, Operand], Array]:
    def lower(x: Operand, n: Operand) -> Array:
        point, degree = jnp.broadcast_arrays(*floats(x, n))
        point, degree = argument(point), jnp.trunc(degree)
        one = jnp.ones_like(point)
        start = jnp.where(degree < 1, one, first(point))
        if point.size == 0:
            return point

        def unfinished(state: tuple[Array, Array, Array]) -> Array:
            return jnp.any(state[0] < degree)

        def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            k, now, before = state
            going = k < degree
            after = step(k, point, now, before)
            return k + 1, jnp.where(going, after, now), jnp.where(going, now, before)

        begin = (jnp.ones((), point.dtype), start, one)
        value = lax.while_loop(unfinished, advance, begin)[1]
        return jnp.where(degree < 0, 0, value)

    return lower


for _name, _family in _FAMILIES.items():
    lowering(
        f"aten::special_{_name}",
        f"aten::special_{_name}.x_scalar",
        f"aten::special_{_name}.n_scalar",
    )(_polynomial(*_family))
