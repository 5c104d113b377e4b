# SPDX-License-Identifier: Apache-2.0
"""Convolutions with groups on a CPU, computed from the taps of the kernel.

XLA:CPU computes a convolution with groups in loops that LLVM cannot vectorize, and expands its
weight gradient to that of a convolution without groups, which multiplies the work by the number of
groups. Here, each tap of a kernel is a slice of the padded input. A depthwise convolution is a sum
over slices, which LLVM vectorizes. Other convolutions with groups become matmuls, which are fast
in XLA.

All arrays are (N, C, ...), and `weight` is (O, C / groups, ...).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath

# The maximum number of taps. XLA compiles each of them separately, which takes time.
_MOST_TAPS = 64
# The maximum number of elements of the im2col matrix. Larger convolutions use XLA's own
# implementation, to save memory.
_MOST_COLUMNS = 1 << 24


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


def supports(x: jax.Array, weight: jax.Array, window: Window, groups: int) -> bool:
    """Return whether `convolve` supports a convolution and is faster than XLA's own code."""
    taps = math.prod(weight.shape[2:])
    if not supports_gradient(x, weight, groups) or taps > _MOST_TAPS:
        return False
    size = math.prod(window.sizes(x.shape[2:], weight.shape[2:]))
    return groups == x.shape[1] or x.shape[0] * x.shape[1] * taps * size <= _MOST_COLUMNS


def supports_gradient(x: jax.Array, weight: jax.Array, groups: int) -> bool:
    """Return whether `weight_gradient` supports a convolution and beats XLA's own code."""
    sizes = (x.size, weight.size)
    return groups > 1 and min(sizes) > 0 and jnp.issubdtype(x.dtype, jnp.inexact)


def convolve(x: jax.Array, weight: jax.Array, window: Window, groups: int, wide: Any) -> jax.Array:
    """Convolve (N, C, ...) with (O, C / groups, ...). Return (N, O, ...) in the dtype `wide`."""
    compute = _depthwise if groups == x.shape[1] else _by_columns
    sizes = window.sizes(x.shape[2:], weight.shape[2:])
    taps = _taps(opmath(x), weight.shape[2:], window, sizes)
    out = compute(list(taps), opmath(weight), groups)
    return out.reshape(x.shape[0], weight.shape[0], *sizes).astype(wide or x.dtype)


def weight_gradient(
    grad: jax.Array, x: jax.Array, weight: jax.Array, window: Window, groups: int
) -> jax.Array:
    """Return the gradient of the weight, given that of the convolution's result."""
    batch, outputs, *sizes = grad.shape
    size = math.prod(sizes)
    split = opmath(grad).reshape(batch, groups, outputs // groups, size)

    def column(tap: jax.Array) -> jax.Array:
        inputs = tap.reshape(batch, groups, -1, size)
        if split.shape[2] == inputs.shape[2] == 1:
            return (split * inputs).sum((0, 3))[:, None]
        return jax.lax.dot_general(split, inputs, (((0, 3), (0, 3)), ((1,), (1,))))

    columns = _of_each_tap(column, opmath(x), weight.shape[2:], window, sizes)
    return jnp.moveaxis(columns, 0, -1).reshape(weight.shape).astype(weight.dtype)


def _depthwise(taps: Sequence[jax.Array], weight: jax.Array, groups: int) -> jax.Array:
    """Return the sum of the taps, each multiplied by its element of the kernel."""
    factors = weight.reshape(groups, -1, len(taps))
    spatial = [1] * (taps[0].ndim - 2)
    total: Any = 0
    for index, tap in enumerate(taps):
        total += tap[:, :, None] * factors[:, :, index].reshape(1, groups, -1, *spatial)
    return total


def _by_columns(taps: Sequence[jax.Array], weight: jax.Array, groups: int) -> jax.Array:
    """Multiply the kernels by the im2col matrix, which has a column for each output position."""
    batch, size = taps[0].shape[0], math.prod(taps[0].shape[2:])
    columns = jnp.stack(taps, axis=2).reshape(batch, groups, -1, size)
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    kernels = jnp.broadcast_to(kernels, (batch, *kernels.shape))
    # XLA has a fast path if the batch dimensions come first in both operands.
    return jax.lax.dot_general(kernels, columns, (((3,), (2,)), ((0, 1), (0, 1))))


def _of_each_tap(
    function: Callable[[jax.Array], jax.Array],
    x: jax.Array,
    kernel: Sequence[int],
    window: Window,
    sizes: Sequence[int],
) -> jax.Array:
    """Return the stacked results of applying a function to each tap.

    The taps are computed one at a time, because XLA would otherwise store all of them at once.
    """
    padded = _padded(x, window)
    extents = [(size - 1) * s + 1 for size, s in zip(sizes, window.stride, strict=True)]

    def of_position(position: jax.Array) -> jax.Array:
        starts = [position[axis] * d for axis, d in enumerate(window.dilation)]
        zero = jnp.zeros((), position.dtype)
        block = jax.lax.dynamic_slice(padded, (zero, zero, *starts), (*x.shape[:2], *extents))
        return function(jax.lax.slice(block, [0] * x.ndim, block.shape, (1, 1, *window.stride)))

    positions = list(itertools.product(*map(range, kernel)))
    return jax.lax.map(of_position, jnp.array(positions, jnp.int32))


def _padded(x: jax.Array, window: Window) -> jax.Array:
    edges = [(*pad, spread - 1) for pad, spread in zip(window.pads, window.spread, strict=True)]
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *edges])


def _taps(
    x: jax.Array, kernel: Sequence[int], window: Window, sizes: Sequence[int]
) -> Iterator[jax.Array]:
    """Yield, for each element of a kernel, the elements of the input that it is multiplied by."""
    padded = _padded(x, window)
    for position in itertools.product(*map(range, kernel)):
        starts = [p * d for p, d in zip(position, window.dilation, strict=True)]
        ends = [
            start + (size - 1) * s + 1
            for start, size, s in zip(starts, sizes, window.stride, strict=True)
        ]
        yield jax.lax.slice(padded, (0, 0, *starts), (*x.shape[:2], *ends), (1, 1, *window.stride))
