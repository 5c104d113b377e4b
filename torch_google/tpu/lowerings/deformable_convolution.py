# SPDX-License-Identifier: Apache-2.0
"""torchvision's deformable convolution and its gradients, without importing torchvision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering


@lowering("torchvision::deform_conv2d")
def deform_conv2d(
    x: jax.Array,
    weight: jax.Array,
    offset: jax.Array,
    mask: jax.Array,
    bias: jax.Array,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> jax.Array:
    """Convolve pixels that are displaced by `offset` and scaled by `mask`.

    x is (N, C, H, W) and weight (O, C / groups, kernel). offset is (N, 2 * offset_groups * kernel,
    output), with a vertical and a horizontal displacement for each kernel position. mask is (N,
    offset_groups * kernel, output), and is ignored unless `use_mask` is true.
    """
    x, weight, offset, mask, bias = map(opmath, (x, weight, offset, mask, bias))
    batch, channels = x.shape[:2]
    outputs, _, kernel_h, kernel_w = weight.shape
    out_h, out_w = offset.shape[-2:]
    kernel = kernel_h * kernel_w
    moved = offset.reshape(batch, offset_groups, kernel, 2, out_h, out_w)
    rows = jnp.arange(out_h) * stride_h - pad_h
    columns = jnp.arange(out_w) * stride_w - pad_w
    position = jnp.arange(kernel)
    down = (position // kernel_w * dilation_h)[:, None, None] + rows[:, None]
    right = (position % kernel_w * dilation_w)[:, None, None] + columns
    y, x_place = moved[:, :, :, 0] + down, moved[:, :, :, 1] + right
    grouped = x.reshape(batch, offset_groups, channels // offset_groups, *x.shape[2:])
    patches = jax.vmap(jax.vmap(_bilinear))(grouped, y, x_place)
    if use_mask:
        patches = patches * mask.reshape(batch, offset_groups, 1, kernel, out_h, out_w)
    patches = patches.reshape(batch, groups, channels // groups, kernel, out_h, out_w)
    split = weight.reshape(groups, outputs // groups, channels // groups, kernel)
    out = jnp.einsum("ngckyx,gock->ngoyx", patches, split)
    return out.reshape(batch, outputs, out_h, out_w) + bias[:, None, None]


@lowering("torchvision::_deform_conv2d_backward")
def deform_conv2d_backward(
    grad: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    offset: jax.Array,
    mask: jax.Array,
    bias: jax.Array,
    *options: Any,
) -> tuple[jax.Array, ...]:
    def forward(*tensors: jax.Array) -> jax.Array:
        return deform_conv2d(*tensors, *options)

    tensors = tuple(map(opmath, (x, weight, offset, mask, bias)))
    return tuple(jax.vjp(forward, *tensors)[1](opmath(grad)))


def _bilinear(image: jax.Array, y: jax.Array, x: jax.Array) -> jax.Array:
    """Interpolate an image (C, H, W), padded with 0, at points. Return (C, *points)."""
    height, width = image.shape[1:]
    y_low, x_low = (jax.lax.stop_gradient(jnp.floor(coordinate)) for coordinate in (y, x))
    flat = image.reshape(image.shape[0], height * width)
    total: Any = 0
    for down in (0, 1):
        for right in (0, 1):
            row, column = y_low + down, x_low + right
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = jnp.where(inside, row * width + column, 0).astype(jnp.int32)
            of_y = y - y_low if down else 1 - (y - y_low)
            of_x = x - x_low if right else 1 - (x - x_low)
            share = jnp.where(inside, of_y * of_x, 0)
            total = total + flat[:, index] * share
    return total
