# SPDX-License-Identifier: Apache-2.0
"""Resampling with nearest, linear, cubic and antialiasing filters.

Along each axis, each output element is a weighted sum of a few input elements, its taps. A single
function therefore implements every mode, and its transpose computes the gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering
from torch_google.tpu.lowerings.upsampling_uint8 import resample_bytes

_Taps = tuple[Any, Any]  # two arrays of shape (outputs, taps): indices of inputs, and weights
# A function of (input size, output size, align_corners, scale or None, computation dtype) that
# returns the taps.
_TapsRule = Callable[[int, int, bool, Any, Any], _Taps]


def _nearest(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> _Taps:
    return _nearest_at(size, out, scale, 0.0)


def _nearest_exact(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> _Taps:
    return _nearest_at(size, out, scale, 0.5)


def _nearest_at(size: int, out: int, scale: Any, offset: float) -> _Taps:
    xp = _array_module(scale)
    # torch computes the scale in single precision for every input dtype.
    step = _step(size, out, False, scale, np.float32)
    where = xp.floor((xp.arange(out).astype(np.float32) + np.float32(offset)) * step)
    where = xp.minimum(where.astype(np.int64), size - 1)
    return where[:, None], None


def _linear(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> _Taps:
    xp = _array_module(scale)
    source = _source(size, out, corners, scale, dtype)
    source = xp.maximum(source, 0)
    low = xp.minimum(xp.floor(source).astype(np.int64), size - 1)
    high = xp.minimum(low + 1, size - 1)
    part = xp.clip(source - low.astype(dtype), 0, 1)
    return xp.stack([low, high], 1), xp.stack([1 - part, part], 1)


def _cubic(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> _Taps:
    xp = _array_module(scale)
    source = _source(size, out, corners, scale, dtype)
    low = xp.floor(source)
    part = source - low
    taps = [xp.clip(low.astype(np.int64) + k, 0, size - 1) for k in (-1, 0, 1, 2)]
    weights = cubic_weights(part)
    return xp.stack(taps, 1), xp.stack(weights, 1)


def cubic_weights(t: Any, a: float = -0.75) -> list[Any]:
    """Return Keys' cubic weights for taps at -1, 0, 1 and 2, for a point t in [0, 1)."""

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _linear_antialias(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> _Taps:
    return _antialias(size, out, corners, scale, dtype, 1.0, lambda x: np.maximum(1 - abs(x), 0))


def _cubic_antialias(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> _Taps:
    def kernel(x: np.ndarray) -> np.ndarray:
        x, a = abs(x), -0.5
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x < 1, near, np.where(x < 2, far, 0))

    return _antialias(size, out, corners, scale, dtype, 2.0, kernel)


def _antialias(
    size: int,
    out: int,
    corners: bool,
    scale: Any,
    dtype: Any,
    radius: float,
    kernel: Callable[[np.ndarray], np.ndarray],
) -> _Taps:
    """Return the taps of a filter that widens with the scale, so that every input contributes."""
    step = float(_step(size, out, corners, scale, dtype))
    support = radius * max(step, 1.0)
    center = step * (np.arange(out) + 0.5)
    begin = np.maximum((center - support + 0.5).astype(np.int64), 0)
    end = np.minimum((center + support + 0.5).astype(np.int64), size)
    taps = begin[:, None] + np.arange(max(int((end - begin).max(initial=1)), 1))
    weights = kernel((taps - center[:, None] + 0.5) / max(step, 1.0))
    weights = np.where(taps < end[:, None], weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    return np.minimum(taps, size - 1), weights.astype(dtype)


_RULES: dict[str, tuple[_TapsRule, int, bool]] = {
    "upsample_nearest1d": (_nearest, 1, False),
    "upsample_nearest2d": (_nearest, 2, False),
    "upsample_nearest3d": (_nearest, 3, False),
    "_upsample_nearest_exact1d": (_nearest_exact, 1, False),
    "_upsample_nearest_exact2d": (_nearest_exact, 2, False),
    "_upsample_nearest_exact3d": (_nearest_exact, 3, False),
    "upsample_linear1d": (_linear, 1, True),
    "upsample_bilinear2d": (_linear, 2, True),
    "upsample_trilinear3d": (_linear, 3, True),
    "upsample_bicubic2d": (_cubic, 2, True),
    "_upsample_bilinear2d_aa": (_linear_antialias, 2, True),
    "_upsample_bicubic2d_aa": (_cubic_antialias, 2, True),
}


# For uint8, the CPU computes these operators with integer arithmetic.
_OF_BYTES = frozenset(
    {
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    }
)


def _register(name: str, rule: _TapsRule, rank: int, has_corners: bool) -> None:
    def resample(x: jax.Array, size: Sequence[int], rest: Sequence[Any]) -> jax.Array:
        corners = bool(rest[0]) if has_corners else False
        scales = list(rest[1:] if has_corners else rest)
        scales += [None] * (rank - len(scales))
        if x.dtype == jnp.uint8 and name in _OF_BYTES:
            return resample_bytes(x, size, corners, scales, rule)
        return _resample(x, size, corners, scales, rule)

    @lowering(f"aten::{name}")
    def forward(x: jax.Array, output_size: Sequence[int], *rest: Any) -> jax.Array:
        return _rounded(resample(x, output_size, rest), x.dtype)

    @lowering(f"aten::{name}_backward")
    def backward(
        grad: jax.Array, output_size: Sequence[int], input_size: Sequence[int], *rest: Any
    ) -> jax.Array:
        wide = opmath(grad)
        zeros = jnp.zeros([int(n) for n in input_size], wide.dtype)
        return jax.vjp(lambda x: resample(x, output_size, rest), zeros)[1](wide)[0]


for _name, (_rule, _rank, _has_corners) in _RULES.items():
    _register(_name, _rule, _rank, _has_corners)


def _resample(
    x: jax.Array, output_size: Sequence[int], corners: bool, scales: Sequence[Any], rule: _TapsRule
) -> jax.Array:
    out = x
    dtype = np.float64 if x.dtype == np.float64 else np.float32
    # Resample the last axis first, to add up the taps in the same order as torch.
    for back in range(1, len(output_size) + 1):
        axis, size, scale = x.ndim - back, int(output_size[-back]), scales[-back]
        taps, weights = rule(x.shape[axis], size, corners, scale, dtype)
        if weights is None:
            out = jnp.take(out, taps[:, 0], axis=axis)
            continue
        out = out.astype(jnp.promote_types(out.dtype, dtype))
        column = (size, *[1] * (back - 1))
        out = sum(
            jnp.take(out, taps[:, k], axis=axis)
            * jnp.asarray(weights[:, k]).astype(out.dtype).reshape(column)
            for k in range(taps.shape[1])
        )
    return out


def _rounded(x: jax.Array, dtype: Any) -> jax.Array:
    if not jnp.issubdtype(dtype, jnp.integer) or x.dtype == dtype:
        return x
    info = jnp.iinfo(dtype)
    return jnp.clip(jnp.floor(x + 0.5), info.min, info.max)


def _array_module(scale: Any) -> Any:
    """Return the numpy module, so that indices are constants, or jax.numpy for a traced scale."""
    return jnp if isinstance(scale, jax.Array) else np


def _step(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> Any:
    """Return the distance between adjacent output elements, measured in input elements."""
    if corners:
        return np.divide(size - 1, out - 1, dtype=dtype) if out > 1 else np.zeros((), dtype)[()]
    if isinstance(scale, jax.Array):
        return (1.0 / scale).astype(dtype)
    if scale is not None and scale > 0:
        return np.asarray(1.0 / scale, dtype)[()]
    return np.asarray(size, dtype)[()] / np.asarray(out, dtype)[()]


def _source(size: int, out: int, corners: bool, scale: Any, dtype: Any) -> Any:
    xp = _array_module(scale)
    step = _step(size, out, corners, scale, dtype)
    places = xp.arange(out).astype(dtype)
    if corners:
        return step * places
    half = np.asarray(0.5, dtype)[()]
    return step * (places + half) - half
