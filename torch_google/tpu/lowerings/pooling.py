# SPDX-License-Identifier: Apache-2.0
"""Max and average pooling over windows of equal size, and their gradients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

_UNROLLED = 64  # windows of at most this size are unrolled; larger ones use a loop


@lowering("aten::max_pool2d_with_indices")
def max_pool2d(
    x: jax.Array,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[jax.Array, jax.Array]:
    return _max_pool(x, _windows(x, 2, kernel, stride, padding, dilation, ceil_mode))


@lowering("aten::max_pool3d_with_indices")
def max_pool3d(
    x: jax.Array,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[jax.Array, jax.Array]:
    return _max_pool(x, _windows(x, 3, kernel, stride, padding, dilation, ceil_mode))


@lowering("aten::max_pool2d_with_indices_backward")
def max_pool2d_backward(
    grad: jax.Array,
    x: jax.Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: jax.Array,
) -> jax.Array:
    return scatter_spatial(grad, indices, x.shape, 2)


@lowering("aten::max_pool3d_with_indices_backward")
def max_pool3d_backward(
    grad: jax.Array,
    x: jax.Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: jax.Array,
) -> jax.Array:
    return scatter_spatial(grad, indices, x.shape, 3)


@lowering("aten::avg_pool2d")
def avg_pool2d(
    x: jax.Array,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    windows = _windows(x, 2, kernel, stride, padding, 1, ceil_mode)
    return _avg_pool(x, windows, count_include_pad, divisor_override)


@lowering("aten::avg_pool3d")
def avg_pool3d(
    x: jax.Array,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    windows = _windows(x, 3, kernel, stride, padding, 1, ceil_mode)
    return _avg_pool(x, windows, count_include_pad, divisor_override)


@lowering("aten::avg_pool2d_backward")
def avg_pool2d_backward(grad: jax.Array, x: jax.Array, *window: Any) -> jax.Array:
    return jax.vjp(lambda x: avg_pool2d(x, *window), opmath(x))[1](opmath(grad))[0]


@lowering("aten::avg_pool3d_backward")
def avg_pool3d_backward(grad: jax.Array, x: jax.Array, *window: Any) -> jax.Array:
    return jax.vjp(lambda x: avg_pool3d(x, *window), opmath(x))[1](opmath(grad))[0]


def scatter_spatial(
    grad: jax.Array, indices: jax.Array, shape: Sequence[int], rank: int
) -> jax.Array:
    """Scatter-add `grad` into an array of this shape, with its last `rank` axes flattened."""
    lead = math.prod(shape[:-rank])
    rows = jnp.arange(lead)[:, None]
    flat = jnp.zeros((lead, math.prod(shape[-rank:])), opmath(grad).dtype)
    outputs = math.prod(grad.shape[-rank:])
    indices, grad = indices.reshape(lead, outputs), opmath(grad).reshape(lead, outputs)
    flat = flat.at[rows, indices].add(grad)
    return flat.reshape(shape)


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: its size, its windows, and its padding at each end."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    out: int

    @property
    def high(self) -> int:
        """Return how far the last window extends past the end of the input. May be negative."""
        reach = (self.out - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return reach - self.padding - self.size

    def position(self, tap: int | jax.Array) -> Any:
        """Return the input position of element `tap` of each window."""
        starts = np.arange(self.out) * self.stride - self.padding
        return starts + tap * self.dilation


def _windows(
    x: jax.Array,
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> list[_Axis]:
    columns = [_per_axis(v, rank) for v in (kernel, stride or kernel, padding, dilation)]
    axes = []
    for size, k, s, p, d in zip(x.shape[-rank:], *columns, strict=True):
        room = size + 2 * p - d * (k - 1) - 1
        out = (room + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (out - 1) * s >= size + p:
            out -= 1  # otherwise, the last window would start in the padding
        axes.append(_Axis(size, k, s, p, d, out))
    return axes


def _per_axis(values: Any, rank: int) -> list[int]:
    listed = [values] if isinstance(values, int) else list(values)
    return [int(v) for v in listed] * (rank if len(listed) == 1 else 1)


def _max_pool(x: jax.Array, axes: list[_Axis]) -> tuple[jax.Array, jax.Array]:
    """Return each window's maximum and its index. The first of equal values wins, as in torch.

    If a window contains NaNs, the last NaN wins. Channels are last here, as in convolutions, so
    that XLA cancels the transposes between pooling and convolutions.
    """
    rank = len(axes)
    x = jnp.moveaxis(x, -rank - 1, -1)
    lead = x.ndim - 1 - rank
    # Pad with a value that never wins, because it is neither above the current maximum nor NaN.
    lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    pads = [(0, 0, 0)] * lead + [(a.padding, max(a.high, 0), 0) for a in axes] + [(0, 0, 0)]
    padded = jax.lax.pad(x, jnp.asarray(lowest, x.dtype), pads)
    sizes = [(a.out - 1) * a.stride + 1 if a.out else 0 for a in axes]
    strides = [1] * lead + [a.stride for a in axes] + [1]

    def step(taps: Sequence[Any], best: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array]:
        starts = [0] * lead + [t * a.dilation for t, a in zip(taps, axes, strict=True)] + [0]
        span = [*x.shape[:lead], *sizes, x.shape[-1]]
        window = jax.lax.dynamic_slice(padded, starts, span)
        window = jax.lax.slice(window, [0] * x.ndim, span, strides)
        here = _flat([a.position(t) for t, a in zip(taps, axes, strict=True)], axes)
        wins = (window > best) | (window != window)
        return jnp.where(wins, window, best), jnp.where(wins, here, index)

    shape = [*x.shape[:lead], *[a.out for a in axes], x.shape[-1]]
    # If all elements of a window equal `lowest`, return the index of the first one that is inside
    # the input.
    first = [np.maximum(-(a.position(0) // a.dilation), 0) for a in axes]
    start = _flat([a.position(f) for a, f in zip(axes, first, strict=True)], axes)
    best, index = jnp.full(shape, lowest, x.dtype), jnp.broadcast_to(jnp.asarray(start), shape)
    kernels = [a.kernel for a in axes]
    if math.prod(kernels) <= _UNROLLED:
        for taps in itertools.product(*map(range, kernels)):
            best, index = step(taps, best, index)
    else:
        best, index = jax.lax.fori_loop(
            0,
            math.prod(kernels),
            lambda i, state: step(jnp.unravel_index(i, kernels), *state),
            (best, index),
        )
    return jnp.moveaxis(best, -1, -rank - 1), jnp.moveaxis(index, -1, -rank - 1)


def _flat(positions: list[Any], axes: list[_Axis]) -> Any:
    """Return an index into the flattened spatial axes: one per window, shared by all channels."""
    index: Any = 0
    for i, (position, axis) in enumerate(zip(positions, axes, strict=True)):
        index = index * axis.size + position.reshape(-1, *[1] * (len(axes) - i))
    # The indices of padding elements also fit in this dtype.
    return index.astype(np.int32 if math.prod(a.size for a in axes) < 2**30 else np.int64)


def _avg_pool(
    x: jax.Array, axes: list[_Axis], count_include_pad: bool, divisor: int | None
) -> jax.Array:
    lead = x.ndim - len(axes)
    # If the last window does not reach the end of the input, crop instead of padding.
    ends = [a.size + min(a.high, 0) for a in axes]
    cropped = opmath(x)[(..., *[slice(0, end) for end in ends])]
    summed = jax.lax.reduce_window(
        cropped,
        np.zeros((), cropped.dtype)[()],
        jax.lax.add,
        [1] * lead + [a.kernel for a in axes],
        [1] * lead + [a.stride for a in axes],
        [(0, 0)] * lead + [(a.padding, max(a.high, 0)) for a in axes],
    )
    if divisor is not None:
        count: Any = divisor
    else:
        count = np.ones(())
        for a in axes:
            begin = a.position(0)
            end = np.minimum(begin + a.kernel, a.size + a.padding)
            if not count_include_pad:
                begin, end = np.maximum(begin, 0), np.minimum(end, a.size)
            count = count[..., None] * (end - begin)
    if jnp.issubdtype(x.dtype, jnp.integer):
        return jax.lax.div(summed, jnp.broadcast_to(jnp.asarray(count, x.dtype), summed.shape))
    return summed / jnp.asarray(count, summed.dtype)
