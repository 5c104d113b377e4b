# SPDX-License-Identifier: Apache-2.0
"""Convolutions over one to three spatial axes, transposed convolutions, and gradients.

Channels are the last dimension, because TPUs tile arrays that way and XLA is also faster with this
layout on CPUs. XLA cancels most of the necessary transposes between convolutions, but each call
transposes the kernel. That costs more than the convolution itself if the kernel is large and is
applied at few positions. On CPUs, it is then faster to gather the windows and multiply them by the
untransposed kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings import grouped_convolution
from torch_google.tpu.lowerings.grouped_convolution import Window
from torch_google.tpu.lowerings.integer_products import exact_product
from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.platform_choice import choose
from torch_google.tpu.lowerings.table import lowering

# A kernel with at least this many elements does not fit in the CPU caches while being transposed.
_LARGE = 1 << 20


@lowering("aten::convolution", "aten::convolution_overrideable")
def convolution(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> jax.Array:
    shape = _Shape(stride, padding, dilation, transposed, output_padding, groups)
    shape = shape.per_axis(x.ndim - 2)
    # Round the result only after the bias has been added.
    wide = None if bias is None else opmath(bias).dtype
    out = _convolve(x, weight, shape, wide)
    if bias is None or x.shape[1] == 0:  # torch ignores the bias if the input has no channels
        return out
    return out + opmath(bias).reshape(-1, *[1] * (x.ndim - 2))


@lowering("aten::convolution_backward", "aten::convolution_backward_overrideable")
def convolution_backward(
    grad: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[jax.Array | None, jax.Array | None, jax.Array | None]:
    shape = _Shape(stride, padding, dilation, transposed, output_padding, groups)
    shape = shape.per_axis(x.ndim - 2)
    axes = (0, *range(2, grad.ndim))
    return (
        _of_input(grad, x, weight, shape) if output_mask[0] else None,
        _of_weight(grad, x, weight, shape) if output_mask[1] else None,
        _of_bias(grad, axes, bias_sizes) if output_mask[2] else None,
    )


@dataclass(frozen=True)
class _Shape:
    """The non-array arguments of a convolution."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool
    output_padding: Sequence[int]
    groups: int

    def per_axis(self, rank: int) -> _Shape:
        """Return torch's arguments with one number per spatial axis.

        Raises ValueError if a padding is negative.
        """
        if min(self.padding, default=0) < 0:
            raise ValueError(
                f"a convolution takes no negative padding, and this one has {list(self.padding)}"
            )
        return replace(
            self,
            stride=_per_axis(self.stride, rank),
            padding=_per_axis(self.padding, rank),
            dilation=_per_axis(self.dilation, rank),
            output_padding=_per_axis(self.output_padding, rank),
        )

    def adjoint(self, x: jax.Array, result: jax.Array, weight: jax.Array) -> _Shape:
        """Return the arguments of the adjoint, a convolution of `result` with the same weight."""
        if self.transposed:
            return replace(self, transposed=False)
        axes = (x.shape[2:], result.shape[2:], weight.shape[2:])
        parts = zip(*axes, self.stride, self.padding, self.dilation, strict=True)
        extra = [
            size - ((out - 1) * s - 2 * p + d * (k - 1) + 1) for size, out, k, s, p, d in parts
        ]
        return replace(self, transposed=True, output_padding=extra)


def _convolve(x: jax.Array, weight: jax.Array, shape: _Shape, wide: Any = None) -> jax.Array:
    general = partial(_general, shape=shape, wide=wide)

    def on_cpu(x: jax.Array, weight: jax.Array) -> jax.Array:
        return grouped_convolution.convolve(x, *_plain(weight, shape), shape.groups, wide)

    if not grouped_convolution.supports(x, *_plain(weight, shape), shape.groups):
        return general(x, weight)
    return jax.lax.platform_dependent(x, weight, cpu=on_cpu, default=general)


def _general(x: jax.Array, weight: jax.Array, shape: _Shape, wide: Any = None) -> jax.Array:
    """Convolve with XLA's convolution or a matmul, on any platform."""
    if x.shape[1] == 0:
        return _of_no_channels(x, weight, shape)
    weight, window = _plain(weight, shape)
    out = _channels_last(x, weight, window, shape.groups, wide)
    return out.transpose((0, x.ndim - 1, *range(1, x.ndim - 1)))


def _of_input(grad: jax.Array, x: jax.Array, weight: jax.Array, shape: _Shape) -> jax.Array:
    def general(grad: jax.Array, x: jax.Array, weight: jax.Array) -> jax.Array:
        return jax.vjp(lambda x: _general(x, weight, shape), x)[1](grad)[0]

    def on_cpu(grad: jax.Array, x: jax.Array, weight: jax.Array) -> jax.Array:
        out = _convolve(grad, weight, shape.adjoint(x, grad, weight))
        # If the output padding is at least the stride, `out` has additional elements.
        return jax.lax.slice(out, [0] * x.ndim, x.shape)

    if not grouped_convolution.supports_gradient(grad, weight, shape.groups):
        return general(grad, x, weight)
    return jax.lax.platform_dependent(grad, x, weight, cpu=on_cpu, default=general)


def _of_weight(grad: jax.Array, x: jax.Array, weight: jax.Array, shape: _Shape) -> jax.Array:
    def general(grad: jax.Array, x: jax.Array, weight: jax.Array) -> jax.Array:
        return jax.vjp(lambda weight: _general(x, weight, shape), weight)[1](grad)[0]

    def on_cpu(grad: jax.Array, x: jax.Array, weight: jax.Array) -> jax.Array:
        # A transposed convolution is the adjoint of the plain one with the same weight, so its
        # input and output are swapped.
        if shape.transposed:
            grad, x = x, grad
        _, window = _plain(weight, replace(shape, transposed=False))
        return grouped_convolution.weight_gradient(grad, x, weight, window, shape.groups)

    if not grouped_convolution.supports_gradient(x, weight, shape.groups):
        return general(grad, x, weight)
    return jax.lax.platform_dependent(grad, x, weight, cpu=on_cpu, default=general)


def _plain(weight: jax.Array, shape: _Shape) -> tuple[jax.Array, Window]:
    """Return the weight and window of the equivalent plain (not transposed) convolution.

    For a transposed convolution, the plain one dilates the input by the stride, and its weight is
    mirrored.
    """
    rank = weight.ndim - 2
    if not shape.transposed:
        pads = [(p, p) for p in shape.padding]
        return weight, Window(shape.stride, pads, [1] * rank, shape.dilation)
    reach = [d * (k - 1) for k, d in zip(weight.shape[2:], shape.dilation, strict=True)]
    pads = [
        (r - p, r - p + extra)
        for r, p, extra in zip(reach, shape.padding, shape.output_padding, strict=True)
    ]
    window = Window([1] * rank, pads, shape.stride, shape.dilation)
    return _mirror(weight, shape.groups), window


def _of_bias(grad: jax.Array, axes: Sequence[int], sizes: Sequence[int] | None) -> jax.Array:
    """Return the gradient of the bias, or zeros if the result has no channels."""
    summed = opmath(grad).sum(axes)
    return jnp.zeros(sizes, summed.dtype) if sizes and not summed.size else summed


def _of_no_channels(x: jax.Array, weight: jax.Array, shape: _Shape) -> jax.Array:
    """Return torch's empty result for an input without channels, regardless of the kernel."""
    columns = zip(
        *(x.shape[2:], weight.shape[2:]),
        *(shape.stride, shape.padding, shape.dilation, shape.output_padding),
        strict=True,
    )
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + extra + 1
        if shape.transposed
        else (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d, extra in columns
    ]
    return jnp.zeros((x.shape[0], 0, *sizes), x.dtype)


def _per_axis(values: Sequence[int], rank: int) -> list[int]:
    return [int(v) for v in values] * (rank if len(values) == 1 else 1)


def _mirror(weight: jax.Array, groups: int) -> jax.Array:
    """Convert a transposed convolution's kernel (in, out / groups, ...) to that of a plain one."""
    wide, narrow, *kernel = weight.shape
    weight = weight.reshape(groups, wide // groups, narrow, *kernel).swapaxes(1, 2)
    weight = weight.reshape(groups * narrow, wide // groups, *kernel)
    return jnp.flip(weight, range(2, weight.ndim))


def _channels_last(
    x: jax.Array, weight: jax.Array, window: Window, groups: int, wide: Any
) -> jax.Array:
    """Convolve (N, C, ...) with (O, C / groups, ...). Return (N, ..., O) in the dtype `wide`.

    A TPU has no int64 convolution, so int64 arrays are convolved in int8 pieces.
    """
    if x.dtype != jnp.int64:
        return _convolved(x, weight, window, groups, wide)
    return choose(
        x,
        weight,
        tpu=lambda x, weight: exact_convolution(x, weight, window, groups),
        default=lambda x, weight: _convolved(x, weight, window, groups, wide),
    )


def exact_convolution(x: jax.Array, weight: jax.Array, window: Window, groups: int) -> jax.Array:
    """Convolve int64 arrays like `_convolved`, but with int8 convolutions."""
    channels = weight.shape[1]

    def convolve(x: jax.Array, weight: jax.Array) -> jax.Array:
        joined = x.reshape(x.shape[0], -1, *x.shape[3:])
        return _convolved(joined, weight, window, groups, jnp.int32)

    grouped = x.reshape(x.shape[0], groups, channels, *x.shape[2:])
    taps = math.prod(weight.shape[2:])
    return exact_product(convolve, grouped, weight, axes=(2, 1), taps=taps)


def _convolved(
    x: jax.Array, weight: jax.Array, window: Window, groups: int, wide: Any
) -> jax.Array:
    letters = "DHW"[3 - (x.ndim - 2) :]

    def convolve(x: jax.Array, weight: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x,
            weight.transpose((*range(2, x.ndim), 1, 0)),
            window_strides=window.stride,
            padding=window.pads,
            lhs_dilation=window.spread,
            rhs_dilation=window.dilation,
            dimension_numbers=(f"N{letters}C", f"{letters}IO", f"N{letters}C"),
            feature_group_count=groups,
            preferred_element_type=wide,
        )

    x = x.transpose((0, *range(2, x.ndim), 1))
    if groups != 1 or any(s != 1 for s in window.spread):
        return convolve(x, weight)
    product = partial(_product, window=window, wide=wide)
    if math.prod(weight.shape[2:]) == 1:
        return product(x, weight)
    if (
        x.shape[0] * math.prod(window.sizes(x.shape[1:-1], weight.shape[2:])) < weight.shape[0]
        and weight.size >= _LARGE
    ):
        return jax.lax.platform_dependent(x, weight, cpu=product, default=convolve)
    return convolve(x, weight)


def _product(x: jax.Array, weight: jax.Array, window: Window, wide: Any) -> jax.Array:
    """Convolve (N, ..., C) with (O, C, ...) by a single matmul. Return (N, ..., O)."""
    sizes = window.sizes(x.shape[1:-1], weight.shape[2:])
    padded = jax.lax.pad(
        x, jnp.zeros((), x.dtype), [(0, 0, 0), *((*p, 0) for p in window.pads), (0, 0, 0)]
    )
    windows = []
    for taps in itertools.product(*map(range, weight.shape[2:])):
        starts = [t * d for t, d in zip(taps, window.dilation, strict=True)]
        ends = [
            start + (size - 1) * s + 1
            for start, size, s in zip(starts, sizes, window.stride, strict=True)
        ]
        windows.append(
            jax.lax.slice(
                padded, (0, *starts, 0), (x.shape[0], *ends, x.shape[-1]), (1, *window.stride, 1)
            )
        )
    rows = windows[0] if len(windows) == 1 else jnp.stack(windows, axis=-1)
    kernel = weight.reshape(weight.shape[0], math.prod(weight.shape[1:]))
    rows = rows.reshape(*x.shape[:1], *sizes, kernel.shape[1])
    dims = (((rows.ndim - 1,), (1,)), ((), ()))
    return jax.lax.dot_general(rows, kernel, dims, preferred_element_type=wide)
