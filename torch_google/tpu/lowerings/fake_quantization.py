# SPDX-License-Identifier: Apache-2.0
"""Fake quantization for quantization-aware training: the values stay floating-point numbers.

The formulas are the same as in torch's CPU kernels, which round half to even. Only elements within
the quantization range propagate gradients, so masks mark these elements.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from torch_google.tpu.lowerings.table import lowering

_Pair = tuple[Array, Array]
# Smaller scales are raised to this value, because their inverses would overflow in half precision.
_SMALL_SCALE = 6.1e-5

# torch's dtype names, as they appear in its error messages.
_NAMES = {
    "bfloat16": "BFloat16",
    "float16": "Half",
    "float64": "Double",
    "int32": "Int",
    "int64": "Long",
}


@lowering("aten::fake_quantize_per_tensor_affine_cachemask")
def per_tensor(x: Array, scale: Any, zero_point: Any, low: int, high: int) -> _Pair:
    _check_range(low, high)
    if isinstance(zero_point, int) and not low <= zero_point <= high:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    return _quantized(x, jnp.float32(scale), jnp.asarray(zero_point), low, high)


@lowering("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def per_tensor_of_tensors(
    x: Array, scale: Array, zero_point: Array, enabled: Array, low: int, high: int
) -> _Pair:
    _check_range(low, high)
    y, mask = _quantized(x, scale.reshape(()), zero_point.reshape(()), low, high)
    on = enabled.reshape(-1)[0] != 0
    return jnp.where(on, y, x), jnp.where(on, mask, True)


@lowering("aten::fake_quantize_per_channel_affine_cachemask")
def per_channel(x: Array, scale: Array, zero_point: Array, axis: int, low: int, high: int) -> _Pair:
    _check_range(low, high)
    _check_channels(x, scale, zero_point, axis)
    return _quantized(x, _along(scale, axis, x), _along(zero_point, axis, x), low, high)


@lowering("aten::_fake_quantize_learnable_per_tensor_affine")
def learnable_per_tensor(
    x: Array, scale: Array, zero_point: Array, low: int, high: int, grad_factor: Any = 1.0
) -> Array:
    zero = _nearest(zero_point.reshape(()), low, high)
    return _quantized(x, scale.reshape(()), zero, low, high)[0]


@lowering("aten::_fake_quantize_learnable_per_channel_affine")
def learnable_per_channel(
    x: Array,
    scale: Array,
    zero_point: Array,
    axis: int,
    low: int,
    high: int,
    grad_factor: Any = 1.0,
) -> Array:
    zero = _along(_nearest(zero_point, low, high), axis, x)
    return _quantized(x, _along(scale, axis, x), zero, low, high)[0]


@lowering("aten::_fake_quantize_learnable_per_tensor_affine_backward")
def learnable_per_tensor_backward(
    gradient: Array,
    x: Array,
    scale: Array,
    zero_point: Array,
    low: int,
    high: int,
    grad_factor: Any = 1.0,
) -> tuple[Array, Array, Array]:
    zero = _nearest(zero_point.reshape(()), low, high)
    dx, dscale, dzero = _gradients(gradient, x, scale.reshape(()), zero, low, high, grad_factor)
    return dx, dscale.sum()[None], dzero.sum()[None]


@lowering("aten::_fake_quantize_learnable_per_channel_affine_backward")
def learnable_per_channel_backward(
    gradient: Array,
    x: Array,
    scale: Array,
    zero_point: Array,
    axis: int,
    low: int,
    high: int,
    grad_factor: Any = 1.0,
) -> tuple[Array, Array, Array]:
    zero = _along(_nearest(zero_point, low, high), axis, x)
    spread = _along(scale, axis, x)
    dx, dscale, dzero = _gradients(gradient, x, spread, zero, low, high, grad_factor)
    others = tuple(dim for dim in range(x.ndim) if dim != axis % x.ndim)
    return dx, dscale.sum(others), dzero.sum(others)


@lowering("aten::_fused_moving_avg_obs_fq_helper_functional")
def observed(
    x: Array,
    observer_on: Array,
    fake_quant_on: Array,
    running_min: Array,
    running_max: Array,
    scale: Array,
    zero_point: Array,
    averaging_const: Any,
    low: int,
    high: int,
    axis: int,
    per_row: bool = False,
    symmetric: bool = False,
) -> tuple[Array, ...]:
    """Update the moving averages of the minimum and maximum, and quantize to that range."""
    if x.dtype != jnp.float32:
        name = _NAMES.get(str(x.dtype), str(x.dtype))
        raise RuntimeError(f"expected scalar type Float but found {name}")
    if per_row and not running_min.size:
        raise RuntimeError(
            "the state per channel of an observer is empty, and a compiled graph cannot allocate "
            "it. Call the function or module once before torch.compile"
        )
    looks = observer_on.reshape(-1)[0] != 0
    others = tuple(dim for dim in range(x.ndim) if dim != axis % x.ndim) if per_row else None
    rate = jnp.float32(averaging_const)

    def averaged(old: Array, current: Array) -> Array:
        now = jnp.broadcast_to(current, old.shape).astype(jnp.float32)
        return jnp.where(looks, jnp.where(jnp.isinf(old), now, old + rate * (now - old)), old)

    least, most = averaged(running_min, x.min(others)), averaged(running_max, x.max(others))
    new_scale, new_zero = _chosen(least, most, low, high, symmetric)
    scale = jnp.where(looks, new_scale.reshape(scale.shape), scale)
    zero_point = jnp.where(looks, new_zero.reshape(zero_point.shape), zero_point)
    if per_row:
        y, mask = per_channel(x, scale, zero_point, axis, low, high)
    else:
        y, mask = _quantized(x, scale.reshape(-1)[0], zero_point.reshape(-1)[0], low, high)
    on = fake_quant_on.reshape(-1)[0] != 0
    return (jnp.where(on, y, x), jnp.where(on, mask, True), least, most, scale, zero_point)


def _check_channels(x: Array, scale: Array, zero_point: Array, axis: int) -> None:
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got "
            f"{axis})"
        )
    if scale.size != zero_point.size:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if scale.size != x.shape[axis]:
        raise RuntimeError(
            "dimensions of scale and zero-point are not consistent with input tensor"
        )


def _check_range(low: int, high: int) -> None:
    if low > high:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")


def _along(values: Array, axis: int, x: Array) -> Array:
    """Reshape an array with one value per channel so that it broadcasts against `x`."""
    return values.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])


def _nearest(zero_point: Array, low: int, high: int) -> Array:
    return jnp.clip(jnp.round(zero_point), low, high).astype(jnp.int64)


def _levels(x: Array, scale: Array, zero_point: Array) -> Array:
    inverse = (1.0 / scale.astype(jnp.float32)).astype(jnp.float32)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    steps = x.astype(wide) * inverse.astype(wide)
    if jnp.issubdtype(zero_point.dtype, jnp.floating):
        return jnp.round(steps + zero_point.astype(wide))
    return zero_point.astype(wide) + jnp.round(steps)


def _quantized(x: Array, scale: Array, zero_point: Array, low: int, high: int) -> _Pair:
    levels = _levels(x, scale, zero_point)
    mask = (levels >= low) & (levels <= high)
    within = jnp.clip(jnp.where(jnp.isnan(levels), low, levels), low, high)
    y = (within - zero_point.astype(levels.dtype)) * scale.astype(levels.dtype)
    return y.astype(x.dtype), mask


def _gradients(
    gradient: Array, x: Array, scale: Array, zero: Array, low: int, high: int, grad_factor: Any
) -> tuple[Array, Array, Array]:
    if gradient.dtype not in (jnp.float32, jnp.bfloat16):
        raise RuntimeError(
            "Expected dY_.scalar_type() == ScalarType::Float to be true, but got false: the gradient "
            f"of a learnable fake quantization has the dtype {gradient.dtype}"
        )
    levels = _levels(x, scale, zero)
    below, above = levels < low, levels > high
    out = below | above
    y = (jnp.clip(levels, low, high) - zero.astype(levels.dtype)) * scale
    slope = jnp.where(below, low - zero, jnp.where(above, high - zero, (y - x) / scale))
    dscale = gradient * slope * grad_factor
    dzero = jnp.where(out, -gradient * scale * grad_factor, 0)
    return jnp.where(out, 0, gradient), dscale.astype(scale.dtype), dzero.astype(scale.dtype)


def _chosen(least: Array, most: Array, low: int, high: int, symmetric: bool) -> _Pair:
    """Return the scale and zero point that fbgemm would choose for a range.

    As in fbgemm, the scale is rounded to float32, and the zero point is computed from the rounded
    scale in double precision.
    """
    least, most = least.astype(jnp.float32), most.astype(jnp.float32)
    both = (least < 0) & (most > 0)
    if symmetric:
        bottom, top = -((high - low) // 2 + 1), (high - low) // 2
        widest = jnp.maximum(
            jnp.abs(least / jnp.float32(bottom)).astype(jnp.float64),
            jnp.abs(most / jnp.float32(top)).astype(jnp.float64),
        )
        least = jnp.where(both, (widest * bottom).astype(jnp.float32), least)
        most = jnp.where(both, (widest * top).astype(jnp.float32), most)
    least, most = jnp.minimum(least, 0.0), jnp.maximum(most, 0.0)
    # Round with reduce_precision, because XLA may remove a conversion to float32 and back.
    scale = lax.reduce_precision((most.astype(jnp.float64) - least) / (high - low), 8, 23)
    narrow = scale.astype(jnp.float32)
    unusable = (narrow == 0) | jnp.isinf(1 / narrow)
    scale = jnp.where(unusable, jnp.float32(0.1).astype(jnp.float64), scale)
    small = scale < jnp.float32(_SMALL_SCALE)
    amplified = jnp.float32(_SMALL_SCALE) / scale.astype(jnp.float32)
    widest = jnp.float32(_SMALL_SCALE) * (high - low)
    new_most = jnp.where(least == 0, widest, jnp.where(most == 0, most, most * amplified))
    new_least = jnp.where(least == 0, least, jnp.where(most == 0, -widest, least * amplified))
    least, most = jnp.where(small, new_least, least), jnp.where(small, new_most, most)
    scale = jnp.where(small, jnp.float32(_SMALL_SCALE).astype(jnp.float64), scale)
    from_least, from_most = low - least / scale, high - most / scale
    error_of_least = abs(low) - jnp.abs(least / scale)
    error_of_most = abs(high) - jnp.abs(most / scale)
    zero = jnp.where(error_of_least < error_of_most, from_least, from_most)
    if symmetric:
        zero = jnp.where((least < 0) & (most > 0), (low + high) / 2, zero)
    zero = jnp.round(jnp.clip(zero, low, high)).astype(jnp.int32)
    return scale.astype(jnp.float32), zero
