# SPDX-License-Identifier: Apache-2.0
"""Sampling an input at grid points: bilinear, nearest or bicubic, in 2 and 3 dimensions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering
from torch_google.tpu.lowerings.upsampling import cubic_weights

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


@lowering("aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    x: jax.Array, grid: jax.Array, interpolation: int, padding: int, align_corners: bool
) -> jax.Array:
    """Sample x (N, C, spatial...) at grid (N, points..., axes).

    Coordinates are in [-1, 1]. The coordinate for the last axis of x comes first.
    """
    wide, grid = opmath(x), opmath(grid)
    sizes = x.shape[2:]
    rank = len(sizes)
    places = [
        _unnormalize(grid[..., rank - 1 - axis], size, align_corners)
        for axis, size in enumerate(sizes)
    ]

    def pad(places: Sequence[jax.Array]) -> list[jax.Array]:
        pairs = zip(places, sizes, strict=True)
        return [_padded(p, size, padding, align_corners) for p, size in pairs]

    if interpolation == _NEAREST:
        return _gather(wide, [jnp.round(p) for p in pad(places)])
    if interpolation == _BICUBIC:
        return _bicubic(wide, places, pad)
    places = pad(places)
    lows = [jax.lax.stop_gradient(jnp.floor(p)) for p in places]
    out: Any = 0
    for corner in itertools.product((0, 1), repeat=rank):
        weight: Any = 1
        for bit, coordinate, low in zip(corner, places, lows, strict=True):
            weight = weight * ((coordinate - low) if bit else (low + 1 - coordinate))
        indices = [low + bit for low, bit in zip(lows, corner, strict=True)]
        out = out + _gather(wide, indices) * weight[:, None]
    return out


@lowering("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def grid_sampler_backward(
    grad: jax.Array,
    x: jax.Array,
    grid: jax.Array,
    interpolation: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[jax.Array | None, jax.Array]:
    def sample(x: jax.Array, grid: jax.Array) -> jax.Array:
        return grid_sampler(x, grid, interpolation, padding, align_corners)

    of_x, of_grid = jax.vjp(sample, opmath(x), opmath(grid))[1](opmath(grad))
    return (of_x if output_mask[0] else None), of_grid


def _unnormalize(coordinate: jax.Array, size: int, align_corners: bool) -> jax.Array:
    if align_corners:
        return (coordinate + 1) / 2 * (size - 1)
    return ((coordinate + 1) * size - 1) / 2


def _padded(coordinate: jax.Array, size: int, padding: int, align_corners: bool) -> jax.Array:
    if padding == _BORDER:
        return _clipped(coordinate, size)
    if padding == _REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        return _clipped(_reflected(coordinate, low, span), size)
    return coordinate


def _clipped(coordinate: jax.Array, size: int) -> jax.Array:
    """Clip a coordinate to the input. As in torch, NaN becomes 0.

    Also as in torch, the gradient of a coordinate at or beyond the border is 0.
    """
    coordinate = jnp.where(coordinate > 0, coordinate, 0)
    return jnp.where(coordinate < size - 1, coordinate, size - 1)


def _reflected(coordinate: jax.Array, low: float, span: float) -> jax.Array:
    if span <= 0:
        return jnp.zeros_like(coordinate)
    distance = jnp.where(coordinate < low, low - coordinate, coordinate - low)
    flips = jax.lax.stop_gradient(jnp.floor(distance / span))
    rest = distance - flips * span
    return jnp.where(flips % 2 == 0, rest + low, span - rest + low)


def _gather(x: jax.Array, places: Sequence[jax.Array]) -> jax.Array:
    """Return the elements of x (N, C, spatial...) at indices (N, points...), or 0 outside x."""
    inside: Any = True
    index: Any = 0
    for coordinate, size in zip(places, x.shape[2:], strict=True):
        inside = inside & (coordinate >= 0) & (coordinate <= size - 1)
        index = index * size + jnp.where(inside, coordinate, 0).astype(jnp.int32)
    n, c = x.shape[:2]
    points = index.shape[1:]
    flat = x.reshape(n, c, math.prod(x.shape[2:]))
    index = jnp.where(inside, index, 0).reshape(n, 1, math.prod(points))
    taken = jnp.take_along_axis(flat, index, axis=2)
    return jnp.where(inside[:, None], taken.reshape(n, c, *points), 0)


def _bicubic(x: jax.Array, places: Sequence[jax.Array], pad: Any) -> jax.Array:
    lows = [jax.lax.stop_gradient(jnp.floor(p)) for p in places]
    weights = [cubic_weights(p - low) for p, low in zip(places, lows, strict=True)]
    out: Any = 0
    for taps in itertools.product(range(4), repeat=len(places)):
        indices = pad([low + tap - 1 for low, tap in zip(lows, taps, strict=True)])
        weight: Any = 1
        for axis, tap in enumerate(taps):
            weight = weight * weights[axis][tap]
        out = out + _gather(x, [jax.lax.stop_gradient(p) for p in indices]) * weight[:, None]
    return out
