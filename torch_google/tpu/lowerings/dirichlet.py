# SPDX-License-Identifier: Apache-2.0
"""The gradient of samples from Beta or Dirichlet distributions, with torch's approximations."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from torch_google.tpu.lowerings.promotion import floats
from torch_google.tpu.lowerings.table import lowering

# Coefficients of a rational function of log x, log(alpha / x) and log(total * x / alpha), from
# torch's ATen/native/Distributions.h.
_RATIONAL = np.array(
    [
        [
            [
                [1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
                [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
                [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013],
            ],
            [
                [0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
                [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
                [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05],
            ],
            [
                [-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
                [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
                [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05],
            ],
        ],
        [
            [
                [1, -0.02924021934, -0.04438342661, 0.007285809825],
                [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
                [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149],
            ],
            [
                [0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
                [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
                [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05],
            ],
            [
                [0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
                [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
                [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06],
            ],
        ],
    ]
)


@lowering("aten::_dirichlet_grad")
def dirichlet_grad(x: Array, alpha: Array, total: Array) -> Array:
    # Compute in double precision. On the CPU, torch also does so in the steps that need it.
    x, alpha, total = (value.astype(jnp.float64) for value in floats(x, alpha, total))
    beta = total - alpha
    boundary = total * x * (1 - x)
    conditions = [
        (x <= 0.5) & (boundary < 2.5),
        (x >= 0.5) & (boundary < 0.75),
        (alpha > 6) & (beta > 6),
    ]
    values = [
        _by_alpha_near_zero(x, alpha, beta),
        -_by_beta_near_zero(1 - x, beta, alpha),
        _by_alpha_if_both_are_large(x, alpha, beta),
    ]
    return jnp.select(conditions, values, _rational(x, alpha, total))


def _by_alpha_near_zero(x: Array, alpha: Array, beta: Array) -> Array:
    """Approximate a sample's derivative with respect to alpha with a Taylor series at x = 0."""
    factor = lax.digamma(alpha) - lax.digamma(alpha + beta) - jnp.log(x)
    numerator = jnp.ones_like(x)
    series = (factor + 1 / alpha) / alpha
    for i in range(1, 11):
        numerator = numerator * (i - beta) * x / i
        series += numerator / (alpha + i) * (factor + 1 / (alpha + i))
    result = x * (1 - x) ** -beta * series
    return jnp.where(jnp.isnan(result), 0, result)


def _by_beta_near_zero(x: Array, alpha: Array, beta: Array) -> Array:
    """Approximate a sample's derivative with respect to beta with a Taylor series at x = 0."""
    factor = lax.digamma(alpha + beta) - lax.digamma(beta)
    numerator, betas, slopes = jnp.ones_like(x), jnp.ones_like(x), jnp.zeros_like(x)
    series = factor / alpha
    for i in range(1, 9):
        numerator = numerator * -x / i
        slopes = slopes * (beta - i) + betas
        betas = betas * (beta - i)
        series += numerator / (alpha + i) * (slopes + factor * betas)
    result = -((1 - x) ** (1 - beta)) * series
    return jnp.where(jnp.isnan(result), 0, result)


def _by_alpha_if_both_are_large(x: Array, alpha: Array, beta: Array) -> Array:
    """Approximate a sample's derivative with respect to alpha, for large alpha and beta.

    Uses a polynomial near the mean, and Rice's saddle point expansion elsewhere.
    """
    total = alpha + beta
    mean = alpha / total
    std = jnp.sqrt(alpha * beta / (total + 1)) / total
    return jnp.where(
        jnp.abs(x - mean) <= 0.1 * std,
        _near_the_mean(x, alpha, beta),
        _off_the_mean(x, alpha, beta),
    )


def _near_the_mean(x: Array, alpha: Array, beta: Array) -> Array:
    total = alpha + beta
    poly = 8 * (1 - x) * (135 * beta - 11)
    poly = (453 + 1620 * beta * (1 - x) - 455 * x) * beta + alpha * poly
    poly = 3 * (59 + 180 * beta - 90 * x) * beta**2 + alpha * poly
    poly = (43 + 20 * (16 + 27 * beta) * x) * beta**3 + alpha * poly
    poly = 47 * x * beta**4 + alpha * poly
    numerator = (1 + 12 * alpha) * (1 + 12 * beta) / total**2
    return numerator / (1 - x) * poly / (12960 * alpha**3 * beta**2 * (1 + 12 * total))


def _off_the_mean(x: Array, alpha: Array, beta: Array) -> Array:
    total = alpha + beta
    prefactor = -x / jnp.sqrt(2 * alpha * beta / total)
    stirling = _stirling(alpha) * _stirling(beta) / _stirling(total)
    distance = alpha * (x - 1) + beta * x
    term1 = 2 * alpha**2 * (x - 1) + alpha * beta * (x - 1) - x * beta**2
    term1 = term1 / (jnp.sqrt(2 * alpha / beta) * total**1.5 * distance**2)
    term2 = 0.5 * jnp.log(alpha / (total * x))
    term3 = jnp.sqrt(8 * alpha * beta / total) / distance
    base = beta * jnp.log(beta / (total * (1 - x))) + alpha * jnp.log(alpha / (total * x))
    term4 = base**-1.5
    below = x < alpha / total
    return stirling * prefactor * (term1 + term2 * (term3 + jnp.where(below, term4, -term4)))


def _stirling(x: Array) -> Array:
    return 1 + 1 / (12 * x) + 1 / (288 * x**2)


def _rational(x: Array, alpha: Array, total: Array) -> Array:
    """Approximate a sample's derivative with respect to alpha.

    This is an analytic formula, with a rational function as a correction.
    """
    u = jnp.log(x)
    a = jnp.log(alpha) - u
    b = jnp.log(total) - a
    top, bottom = (
        sum(
            u**i * a**j * (c[0] + b * (c[1] + b * (c[2] + b * c[3])))
            for i, rows in enumerate(part)
            for j, c in enumerate(rows)
        )
        for part in _RATIONAL
    )
    slope = lax.digamma(total) - lax.digamma(alpha)
    return top / bottom * x * slope / (total - alpha)
