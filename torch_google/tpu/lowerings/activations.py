# SPDX-License-Identifier: Apache-2.0
"""Activation functions and their gradients. Half-precision results are computed in float32."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath, scalar
from torch_google.tpu.lowerings.special_functions import erf
from torch_google.tpu.lowerings.table import lowering

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


@lowering("aten::gelu")
def gelu(x: jax.Array, *, approximate: str = "none") -> jax.Array:
    x = opmath(x)
    if approximate == "tanh":
        return 0.5 * x * (1 + jnp.tanh(_TANH_SCALE * (x + _TANH_CUBE * x * x * x)))
    return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))


@lowering("aten::gelu_backward")
def gelu_backward(grad: jax.Array, x: jax.Array, *, approximate: str = "none") -> jax.Array:
    grad, x = opmath(grad), opmath(x)
    if approximate == "tanh":
        t = jnp.tanh(_TANH_SCALE * (x + _TANH_CUBE * x * x * x))
        slope = _TANH_SCALE * (1 + 3 * _TANH_CUBE * x * x)
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    density = jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return grad * (0.5 * (1 + erf(x * math.sqrt(0.5))) + x * density)


@lowering("aten::silu")
def silu(x: jax.Array) -> jax.Array:
    x = opmath(x)
    return x * jax.nn.sigmoid(x)


@lowering("aten::silu_backward")
def silu_backward(grad: jax.Array, x: jax.Array) -> jax.Array:
    grad, x = opmath(grad), opmath(x)
    s = jax.nn.sigmoid(x)
    return grad * s * (1 + x * (1 - s))


@lowering("aten::mish")
def mish(x: jax.Array) -> jax.Array:
    x = opmath(x)
    return x * jnp.tanh(_log1p_exp(x))


@lowering("aten::mish_backward")
def mish_backward(grad: jax.Array, x: jax.Array) -> jax.Array:
    grad, x = opmath(grad), opmath(x)
    t = jnp.tanh(_log1p_exp(x))
    return grad * (t + x * jax.nn.sigmoid(x) * (1 - t * t))


@lowering("aten::elu")
def elu(x: jax.Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> jax.Array:
    x = opmath(x)
    alpha, scale, input_scale = (scalar(v, x) for v in (alpha, scale, input_scale))
    low = jnp.minimum(x, 0)  # without minimum(), the branch that is not selected would overflow
    return jnp.where(x > 0, x * scale, jnp.expm1(low * input_scale) * (alpha * scale))


@lowering("aten::elu_backward")
def elu_backward(
    grad: jax.Array, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: jax.Array
) -> jax.Array:
    _must_tell_sides(is_result, alpha, "elu")
    grad, x = opmath(grad), opmath(x)
    alpha, scale, input_scale = (scalar(v, x) for v in (alpha, scale, input_scale))
    if is_result:
        low = grad * input_scale * (x + alpha * scale)
    else:
        low = grad * input_scale * (alpha * scale) * jnp.exp(jnp.minimum(x, 0) * input_scale)
    return jnp.where(x <= 0, low, grad * scale)


@lowering("aten::celu")
def celu(x: jax.Array, alpha: Any = 1.0) -> jax.Array:
    x = opmath(x)
    alpha = scalar(alpha, x)
    return jnp.where(x > 0, x, jnp.expm1(jnp.minimum(x, 0) / alpha) * alpha)


@lowering("aten::hardtanh")
def hardtanh(x: jax.Array, min_val: Any = -1, max_val: Any = 1) -> jax.Array:
    return jnp.clip(x, scalar(min_val, x), scalar(max_val, x))


@lowering("aten::hardtanh_backward")
def hardtanh_backward(grad: jax.Array, x: jax.Array, min_val: Any, max_val: Any) -> jax.Array:
    return jnp.where((x <= scalar(min_val, x)) | (x >= scalar(max_val, x)), 0, grad)


@lowering("aten::leaky_relu")
def leaky_relu(x: jax.Array, negative_slope: Any = 0.01) -> jax.Array:
    x = opmath(x)
    return jnp.where(x > 0, x, x * scalar(negative_slope, x))


@lowering("aten::leaky_relu_backward")
def leaky_relu_backward(
    grad: jax.Array, x: jax.Array, negative_slope: Any, is_result: bool
) -> jax.Array:
    _must_tell_sides(is_result, negative_slope, "leaky_relu")
    grad = opmath(grad)
    return jnp.where(x > 0, grad, grad * scalar(negative_slope, grad))


@lowering("aten::_prelu_kernel")
def prelu(x: jax.Array, weight: jax.Array) -> jax.Array:
    return jnp.where(x > 0, x, x * weight)


@lowering("aten::_prelu_kernel_backward")
def prelu_backward(grad: jax.Array, x: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.where(x > 0, grad, grad * weight), jnp.where(x > 0, 0, grad * x)


@lowering("aten::softplus")
def softplus(x: jax.Array, beta: Any = 1, threshold: Any = 20) -> jax.Array:
    x = opmath(x)
    beta = scalar(beta, x)
    scaled = x * beta
    return jnp.where(scaled > scalar(threshold, x), x, _log1p_exp(scaled) / beta)


@lowering("aten::softplus_backward")
def softplus_backward(grad: jax.Array, x: jax.Array, beta: Any, threshold: Any) -> jax.Array:
    grad, x = opmath(grad), opmath(x)
    scaled = x * scalar(beta, x)
    return jnp.where(scaled > scalar(threshold, x), grad, grad * jax.nn.sigmoid(scaled))


@lowering("aten::log_sigmoid_forward")
def log_sigmoid(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    x = opmath(x)
    rest = jnp.exp(-jnp.abs(x))
    return jnp.minimum(x, 0) - jnp.log1p(rest), rest


@lowering("aten::log_sigmoid_backward")
def log_sigmoid_backward(grad: jax.Array, x: jax.Array, buffer: jax.Array) -> jax.Array:
    return opmath(grad) * jax.nn.sigmoid(-opmath(x))


@lowering("aten::glu")
def glu(x: jax.Array, dim: int = -1) -> jax.Array:
    value, gate = jnp.split(opmath(x), 2, axis=dim)
    return value * jax.nn.sigmoid(gate)


@lowering("aten::glu_backward")
def glu_backward(grad: jax.Array, x: jax.Array, dim: int) -> jax.Array:
    grad = opmath(grad)
    value, gate = jnp.split(opmath(x), 2, axis=dim)
    s = jax.nn.sigmoid(gate)
    return jnp.concatenate([grad * s, grad * value * s * (1 - s)], axis=dim)


@lowering("aten::glu_jvp")
def glu_jvp(out: jax.Array, x: jax.Array, dx: jax.Array, dim: int) -> jax.Array:
    _, gate = jnp.split(opmath(x), 2, axis=dim)
    dvalue, dgate = jnp.split(opmath(dx), 2, axis=dim)
    s = jax.nn.sigmoid(gate)
    return dvalue * s + opmath(out) * (1 - s) * dgate


@lowering("aten::glu_backward_jvp")
def glu_backward_jvp(
    grad_x: jax.Array, grad: jax.Array, x: jax.Array, dgrad: jax.Array, dx: jax.Array, dim: int
) -> jax.Array:
    primals = opmath(grad), opmath(x)
    tangents = opmath(dgrad), opmath(dx)
    return jax.jvp(lambda g, y: glu_backward(g, y, dim), primals, tangents)[1]


@lowering("aten::threshold")
def threshold(x: jax.Array, threshold: Any, value: Any) -> jax.Array:
    return jnp.where(x <= scalar(threshold, x), jnp.asarray(value).astype(x.dtype), x)


@lowering("aten::threshold_backward")
def threshold_backward(grad: jax.Array, x: jax.Array, threshold: Any) -> jax.Array:
    return jnp.where(x <= scalar(threshold, x), 0, grad)


@lowering("aten::hardswish")
def hardswish(x: jax.Array) -> jax.Array:
    x = opmath(x)
    return x * jnp.clip(x + 3, 0, 6) / 6


@lowering("aten::hardswish_backward")
def hardswish_backward(grad: jax.Array, x: jax.Array) -> jax.Array:
    grad, x = opmath(grad), opmath(x)
    return jnp.where(x <= -3, 0, jnp.where(x < 3, grad * (x / 3 + 0.5), grad))


@lowering("aten::hardsigmoid")
def hardsigmoid(x: jax.Array) -> jax.Array:
    return jnp.clip(opmath(x) + 3, 0, 6) / 6


@lowering("aten::hardsigmoid_backward")
def hardsigmoid_backward(grad: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.where((x > -3) & (x < 3), opmath(grad) / 6, 0)


@lowering("aten::softshrink")
def softshrink(x: jax.Array, lambd: Any = 0.5) -> jax.Array:
    edge = scalar(lambd, x)
    inner = jnp.where(x < -edge, x + edge, x * 0)  # x * 0 is NaN if x is NaN
    return jnp.where(x > edge, x - edge, inner)


@lowering("aten::hardshrink")
def hardshrink(x: jax.Array, lambd: Any = 0.5) -> jax.Array:
    edge = scalar(lambd, x)
    return jnp.where((x >= -edge) & (x <= edge), 0, x)


@lowering("aten::softshrink_backward", "aten::hardshrink_backward")
def shrink_backward(grad: jax.Array, x: jax.Array, lambd: Any) -> jax.Array:
    edge = scalar(lambd, x)
    return jnp.where((x >= -edge) & (x <= edge), 0, grad)


@lowering("aten::logit_backward")
def logit_backward(grad: jax.Array, x: jax.Array, eps: Any = None) -> jax.Array:
    grad, x = opmath(grad), opmath(x)
    low, outside = (0.0, jnp.nan) if eps is None else (scalar(eps, x), 0.0)
    return jnp.where((x < low) | (x > 1 - low), outside, grad / (x * (1 - x)))


@lowering("aten::rrelu_with_noise_functional", random=True)
def rrelu_with_noise(
    x: jax.Array,
    noise: jax.Array,
    lower: Any = 0.125,
    upper: Any = 1 / 3,
    training: bool = False,
    generator: Any = None,
    *,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    wide = opmath(x)
    low, high = scalar(lower, wide), scalar(upper, wide)
    if not training:
        return jnp.where(wide > 0, wide, wide * ((low + high) / 2)), noise
    slopes = jax.random.uniform(key, x.shape, wide.dtype) * (high - low) + low
    slopes = jnp.where(wide > 0, 1, slopes)
    return wide * slopes, slopes


@lowering("aten::rrelu_with_noise_backward")
def rrelu_with_noise_backward(
    grad: jax.Array,
    x: jax.Array,
    noise: jax.Array,
    lower: Any,
    upper: Any,
    training: bool,
    is_result: bool,
) -> jax.Array:
    if training:
        return grad * noise
    return leaky_relu_backward(grad, x, (lower + upper) / 2, is_result)


def _log1p_exp(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def _must_tell_sides(is_result: bool, slope: Any, name: str) -> None:
    """Reject a negative slope, because the result would not determine the sign of the operand."""
    if is_result and slope < 0:
        raise RuntimeError(
            f"{name}: the gradient of an in-place call with a negative slope ({slope}) cannot be told "
            "from its result; call out-of-place version instead"
        )
