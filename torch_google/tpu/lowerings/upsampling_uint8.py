# SPDX-License-Identifier: Apache-2.0
"""Resampling of uint8 images with integer arithmetic and 16-bit weights, like torch's CPU kernels.

The image is resampled along one axis at a time and rounded to uint8 after each axis. The weights
have as many fractional bits as the largest weight allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_MOST_BITS = 22
# A function of (input size, output size, align_corners, scale or None, computation dtype) that
# returns the taps.
_TapsRule = Callable[[int, int, bool, Any, Any], tuple[Any, Any]]


def resample_bytes(
    x: jax.Array, output_size: Sequence[int], corners: bool, scales: Sequence[Any], rule: _TapsRule
) -> jax.Array:
    """Resample uint8 images. Results are bit-identical to the CPU's. Scales must not be traced."""
    for back in range(1, len(output_size) + 1):
        axis, size, scale = x.ndim - back, int(output_size[-back]), scales[-back]
        if size == x.shape[axis] and scale is None:
            continue
        known = None if scale is None else float(scale)
        taps, weights = rule(x.shape[axis], size, corners, known, np.float64)
        taps, weights = _merged(np.asarray(taps), np.asarray(weights))
        bits = _bits(float(weights.max(initial=0.0)))
        parts = np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)).astype(np.int32)
        column = (size, *[1] * (back - 1))
        wide = x.astype(jnp.int32)
        total = sum(
            jnp.take(wide, taps[:, k], axis=axis) * parts[:, k].reshape(column)
            for k in range(taps.shape[1])
        )
        x = jnp.clip((total + (1 << (bits - 1))) >> bits, 0, 255).astype(jnp.uint8)
    return x


def _merged(taps: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge an output's taps that have the same index, as happens at an edge: add their weights."""
    weights = weights.copy()
    for later in range(1, taps.shape[1]):
        for first in range(later):
            same = taps[:, first] == taps[:, later]
            weights[same, first] += weights[same, later]
            weights[same, later] = 0
    return taps, weights


def _bits(largest: float) -> int:
    """Return the number of fractional bits of the 16-bit weights, given the largest weight."""
    bits = 0
    while bits < _MOST_BITS and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits
