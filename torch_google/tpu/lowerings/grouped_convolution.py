# SPDX-License-Identifier: Apache-2.0
"""Convolutions with groups on a CPU, one tap of the kernel at a time.

XLA:CPU computes a depthwise convolution in loops that LLVM cannot vectorize, and expands the weight
gradient of a convolution with groups to one without, which multiplies the work by the number of
groups. Here, each tap of a kernel is a slice of the padded input. LLVM vectorizes a sum over
slices, and XLA has a fast path for matmuls.

All arrays are (N, C, ...), and `weight` is (O, C / groups, ...).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath

# XLA compiles each tap separately. 64 taps of a weight gradient take about 1 s.
_MOST_TAPS = 64


@dataclass(frozen=True)
class Window:
    """The stride, padding and dilations of a convolution, per spatial axis."""

    stride: Sequence[int]
    pads: Sequence[tuple[int, int]]
    spread: Sequence[int]  # the dilation of the input
    dilation: Sequence[int]

    def sizes(self, x: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Return the spatial sizes of the result, given those of the undilated input."""
        axes = zip(x, self.pads, self.spread, self.dilation, kernel, self.stride, strict=True)
        return [
            ((size - 1) * spread + sum(pad) - d * (k - 1)) // s + 1
            for size, pad, spread, d, k, s in axes
        ]


def is_depthwise(x: jax.Array, weight: jax.Array, groups: int) -> bool:
    """Return whether `depthwise` supports the convolution and is faster than XLA's."""
    return groups == x.shape[1] > 1 and _has_few_taps(x, weight)


def has_grouped_gradient(x: jax.Array, weight: jax.Array, groups: int) -> bool:
    """Return whether `weight_gradient` supports the convolution and is faster than XLA's."""
    return groups > 1 and _has_few_taps(x, weight)


def depthwise(x: jax.Array, weight: jax.Array, window: Window, wide: Any) -> jax.Array:
    """Convolve each channel separately, and return the result in the dtype `wide`."""
    sizes = window.sizes(x.shape[2:], weight.shape[2:])
    channels = x.shape[1]
    factors = opmath(weight).reshape(channels, -1, math.prod(weight.shape[2:]))
    shape = (x.shape[0], channels, factors.shape[1], *sizes)
    total = jnp.zeros(shape, factors.dtype)
    for index, tap in enumerate(_taps(opmath(x), weight.shape[2:], window, sizes)):
        factor = factors[:, :, index].reshape(1, *factors.shape[:2], *[1] * len(sizes))
        total = total + tap[:, :, None] * factor
    return total.reshape(x.shape[0], weight.shape[0], *sizes).astype(wide or x.dtype)


def weight_gradient(
    grad: jax.Array, x: jax.Array, weight: jax.Array, window: Window, groups: int
) -> jax.Array:
    """Return the gradient of the weight, given that of the convolution's result."""
    batch, outputs, *sizes = grad.shape
    size = math.prod(sizes)
    split = opmath(grad).reshape(batch, groups, outputs // groups, size)
    columns = []
    for tap in _taps(opmath(x), weight.shape[2:], window, sizes):
        inputs = tap.reshape(batch, groups, -1, size)
        if split.shape[2] == inputs.shape[2] == 1:
            column = (split * inputs).sum((0, 3))[:, None]
        else:
            dims = (((0, 3), (0, 3)), ((1,), (1,)))
            column = jax.lax.dot_general(split, inputs, dims)
        columns.append(column)
    return jnp.stack(columns, axis=-1).reshape(weight.shape).astype(weight.dtype)


def _has_few_taps(x: jax.Array, weight: jax.Array) -> bool:
    taps = math.prod(weight.shape[2:])
    return taps <= _MOST_TAPS and x.size > 0 and jnp.issubdtype(x.dtype, jnp.inexact)


def _taps(
    x: jax.Array, kernel: Sequence[int], window: Window, sizes: Sequence[int]
) -> Iterator[jax.Array]:
    """Yield, for each element of a kernel, the elements of the input that it is multiplied by."""
    edges = [(*pad, spread - 1) for pad, spread in zip(window.pads, window.spread, strict=True)]
    padded = jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *edges])
    for position in itertools.product(*map(range, kernel)):
        starts = [p * d for p, d in zip(position, window.dilation, strict=True)]
        ends = [
            start + (size - 1) * s + 1
            for start, size, s in zip(starts, sizes, window.stride, strict=True)
        ]
        yield jax.lax.slice(padded, (0, 0, *starts), (*x.shape[:2], *ends), (1, 1, *window.stride))
