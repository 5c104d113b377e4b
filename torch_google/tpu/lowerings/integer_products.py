# SPDX-License-Identifier: Apache-2.0
"""int64 matmuls and convolutions on a TPU, exact modulo 2**64, as on a CPU.

On a TPU, XLA has no int64 matmuls or convolutions, but it has fast int8 ones that accumulate in
int32. So both factors are written as eight digits from -128 to 127 in base 256. Each digit of the
product is computed by one int8 product, which combines all pairs of digits that contribute to it:
for the second digit, [a0 a1 a2 ...] times [b1 b0 0 ...]. Digits from the ninth on are dropped,
because they are multiples of 2**64.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.platform_choice import NotOnTpu

_DIGITS = 8
# The maximum number of products of two digits, each up to 2**14, whose sum fits in an int32.
_MOST = (2**31 - 1) // 2**14

Product = Callable[[jax.Array, jax.Array], jax.Array]


def exact_product(
    product: Product, a: jax.Array, b: jax.Array, *, axes: tuple[int, int], taps: int = 1
) -> jax.Array:
    """Return `product(a, b)` for int64 arrays, computed from products of int8 arrays.

    `product` maps int8 arrays to an int32 array. It sums over one axis of each argument, given by
    `axes`, and must support any size of these axes. Each element of the result is a sum over that
    axis and at most `taps` kernel positions. Raises NotOnTpu if there are too many positions.
    """
    longest = _MOST // (_DIGITS * taps)
    if not longest:
        raise NotOnTpu(
            f"tpu: a TPU has no convolution of int64 with {taps} positions in the kernel: up to "
            f"{_MOST // _DIGITS} fit. Use int32, or to run it on the CPU, outside of compiled "
            "graphs: with torch.tpu.cpu_fallback()"
        )
    size = a.shape[axes[0]]
    parts = max(1, -(-size // longest))
    if parts == 1:
        return _by_digits(product, a, b, axes)
    # Pad with zeros, which do not change the sums, so that all chunks have equal length.
    length = -(-size // parts)
    a, b = (_padded(x, axis, parts * length) for x, axis in zip((a, b), axes, strict=True))

    def add(part: jax.Array, total: jax.Array) -> jax.Array:
        x, y = (
            jax.lax.dynamic_slice_in_dim(x, part * length, length, axis)
            for x, axis in zip((a, b), axes, strict=True)
        )
        return total + _by_digits(product, x, y, axes)

    return jax.lax.fori_loop(0, parts, add, _zeros(product, a, b))


def _by_digits(product: Product, a: jax.Array, b: jax.Array, axes: tuple[int, int]) -> jax.Array:
    size = a.shape[axes[0]]
    left = jnp.concatenate(_digits(a), axis=axes[0])
    right = jnp.concatenate(_digits(b)[::-1], axis=axes[1])
    right = _padded(right, axes[1], (2 * _DIGITS - 1) * size)
    # Without the barrier, XLA recomputes the digits for each product.
    left, right = jax.lax.optimization_barrier((left, right))

    def add(digit: jax.Array, total: jax.Array) -> jax.Array:
        start = (_DIGITS - 1 - digit) * size
        y = jax.lax.dynamic_slice_in_dim(right, start, _DIGITS * size, axes[1])
        return total + (product(left, y).astype(jnp.int64) << (8 * digit))

    # Use a loop, because libtpu takes four times as long to compile eight separate products: 24
    # seconds for 1,024 rows and columns.
    return jax.lax.fori_loop(0, _DIGITS, add, _zeros(product, a, b))


def _zeros(product: Product, a: jax.Array, b: jax.Array) -> jax.Array:
    narrow = (jax.ShapeDtypeStruct(x.shape, jnp.int8) for x in (a, b))
    return jnp.zeros(jax.eval_shape(product, *narrow).shape, jnp.int64)


def _digits(x: jax.Array) -> list[jax.Array]:
    """Return the digits of int64 values as int8, least significant first."""
    digits = []
    for _ in range(_DIGITS):
        digits.append(x.astype(jnp.int8))
        # If the difference overflows, the error is a multiple of 2**64.
        x = (x - digits[-1].astype(jnp.int64)) >> 8
    return digits


def _padded(x: jax.Array, axis: int, size: int) -> jax.Array:
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (0, size - x.shape[axis], 0)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), pads)
