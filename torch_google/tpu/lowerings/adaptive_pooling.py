# SPDX-License-Identifier: Apache-2.0
"""Adaptive and fractional pooling, whose output size the caller chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.pooling import scatter_spatial
from torch_google.tpu.lowerings.table import lowering


@lowering("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
def adaptive_avg_pool(x: jax.Array, output_size: Sequence[int]) -> jax.Array:
    out = opmath(x)
    rank = len(output_size)
    for axis, size in zip(range(x.ndim - rank, x.ndim), output_size, strict=True):
        if size == out.shape[axis]:
            continue
        if size and out.shape[axis] and out.shape[axis] % size == 0:
            # The windows are adjacent and have equal sizes.
            width = out.shape[axis] // size
            split = (*out.shape[:axis], size, width, *out.shape[axis + 1 :])
            out = out.reshape(split).mean(axis + 1)
            continue
        taps, inside, count = _adaptive_windows(out.shape[axis], int(size))
        windows = jnp.take(out, taps, axis=axis)
        rest = [1] * (x.ndim - axis - 1)
        windows = jnp.where(inside.reshape(*inside.shape, *rest), windows, 0)
        out = windows.sum(axis + 1) / jnp.asarray(count.reshape(-1, *rest), out.dtype)
    return out


@lowering("aten::_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(grad: jax.Array, x: jax.Array) -> jax.Array:
    return _adaptive_avg_backward(grad, x, 2)


@lowering("aten::_adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(grad: jax.Array, x: jax.Array) -> jax.Array:
    return _adaptive_avg_backward(grad, x, 3)


@lowering("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(x: jax.Array, output_size: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    rank = len(output_size)
    sizes = x.shape[-rank:]
    windows = [_adaptive_windows(n, int(out)) for n, out in zip(sizes, output_size, strict=True)]
    return _max_of_windows(x, [w[0] for w in windows], [w[1] for w in windows])


@lowering("aten::adaptive_max_pool2d_backward")
def adaptive_max_pool2d_backward(grad: jax.Array, x: jax.Array, indices: jax.Array) -> jax.Array:
    return scatter_spatial(grad, indices, x.shape, 2)


@lowering("aten::adaptive_max_pool3d_backward")
def adaptive_max_pool3d_backward(grad: jax.Array, x: jax.Array, indices: jax.Array) -> jax.Array:
    return scatter_spatial(grad, indices, x.shape, 3)


@lowering("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")
def fractional_max_pool(
    x: jax.Array, kernel: Sequence[int], output_size: Sequence[int], samples: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Pool windows of size `kernel`, at random positions given by `samples` (batch, channel, axis).

    Extra samples are ignored.
    """
    rank = len(output_size)
    kernel = [int(k) for k in kernel] * (rank if len(kernel) == 1 else 1)
    lead, sizes = x.shape[:-rank], x.shape[-rank:]
    planes = x.reshape(math.prod(lead), *sizes)
    samples = samples.reshape(math.prod(samples.shape[:-1]), rank)[: len(planes)]
    samples = jnp.broadcast_to(samples, (len(planes), rank))
    # In two dimensions, torch's samples list the width first; in three, the depth.
    order = range(rank) if rank == 3 else range(rank - 1, -1, -1)

    def of_plane(plane: jax.Array, sample: jax.Array) -> tuple[jax.Array, jax.Array]:
        taps = [
            _fractional_starts(sample[draw], size, int(out), k)[:, None] + np.arange(k)
            for draw, size, out, k in zip(order, sizes, output_size, kernel, strict=True)
        ]
        return _max_of_windows(plane, taps, [None] * rank)

    best, index = jax.vmap(of_plane)(planes, samples)
    return best.reshape(*lead, *output_size), index.reshape(*lead, *output_size)


@lowering("aten::fractional_max_pool2d_backward")
def fractional_max_pool2d_backward(
    grad: jax.Array, x: jax.Array, kernel: Any, output_size: Any, indices: jax.Array
) -> jax.Array:
    return scatter_spatial(grad, indices, x.shape, 2)


@lowering("aten::fractional_max_pool3d_backward")
def fractional_max_pool3d_backward(
    grad: jax.Array, x: jax.Array, kernel: Any, output_size: Any, indices: jax.Array
) -> jax.Array:
    return scatter_spatial(grad, indices, x.shape, 3)


def _adaptive_avg_backward(grad: jax.Array, x: jax.Array, rank: int) -> jax.Array:
    size = grad.shape[-rank:]
    return jax.vjp(lambda x: adaptive_avg_pool(x, size), opmath(x))[1](opmath(grad))[0]


def _adaptive_windows(size: int, out: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices in each output's window, a mask of the valid ones, and their counts."""
    begin = np.arange(out) * size // max(out, 1)
    end = -(-(np.arange(out) + 1) * size // max(out, 1))
    count = end - begin
    offsets = np.arange(count.max(initial=0))
    inside = offsets < count[:, None]
    return np.where(inside, begin[:, None] + offsets, 0), inside, count


def _fractional_starts(sample: jax.Array, size: int, out: int, kernel: int) -> jax.Array:
    if out == 1:
        return jnp.asarray([size - kernel])
    alpha = jnp.asarray((size - kernel) / (out - 1), sample.dtype)
    steps = jnp.arange(out - 1).astype(sample.dtype)
    starts = ((steps + sample) * alpha).astype(int) - (sample * alpha).astype(int)
    return jnp.concatenate([starts, jnp.asarray([size - kernel])])


def _max_of_windows(
    x: jax.Array, taps: Sequence[Any], inside: Sequence[Any]
) -> tuple[jax.Array, jax.Array]:
    """Return the maximum of each window, and its index in the flattened spatial axes.

    `taps` holds, for each axis, an array (outputs, window size) of the indices in each window.
    """
    rank = len(taps)
    lead, sizes = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    index: Any = 0
    counts: Any = True
    for i, (tap, mask) in enumerate(zip(taps, inside, strict=True)):
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = tap.shape
        index = index * sizes[i] + jnp.asarray(tap).reshape(shape)
        if mask is not None:
            counts = counts & mask.reshape(shape)
    outputs, window = index.shape[:rank], index.shape[rank:]
    taken = math.prod(window)
    if not (taken and math.prod(outputs)):
        return jnp.zeros((*lead, *outputs), x.dtype), jnp.zeros((*lead, *outputs), index.dtype)
    flat = x.reshape(*lead, math.prod(sizes))
    values = flat[..., index.reshape(*outputs, taken)]
    lowest = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    counts = jnp.broadcast_to(counts, (*outputs, *window)).reshape(*outputs, taken)
    values = jnp.where(counts, values, jnp.asarray(lowest, x.dtype))
    nan = jnp.isnan(values)  # if there are several NaNs, torch selects the last
    last = taken - 1 - jnp.argmax(nan[..., ::-1], axis=-1)
    where = jnp.where(nan.any(-1), last, jnp.argmax(values, axis=-1))
    best = jnp.take_along_axis(values, where[..., None], axis=-1)[..., 0]
    indices = jnp.broadcast_to(index.reshape(*outputs, taken), values.shape)
    return best, jnp.take_along_axis(indices, where[..., None], axis=-1)[..., 0]
