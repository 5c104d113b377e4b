# SPDX-License-Identifier: Apache-2.0
"""torchvision's deformable convolution matches a pixel-by-pixel definition in plain torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
_OPTIONS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt"
    " dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
_TENSORS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
_LIBRARY.define(f"deform_conv2d({_TENSORS}, {_OPTIONS}) -> Tensor")
_LIBRARY.define(
    f"_deform_conv2d_backward(Tensor grad, {_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor,"
    " Tensor, Tensor)"
)
vision: Any = torch.ops.torchvision


def _pixel(image: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Interpolate an image (C, H, W), padded with 0, at a point. Differentiable in y and x."""
    top, left = math.floor(y.item()), math.floor(x.item())
    total = image[:, 0, 0] * 0
    for row in (top, top + 1):
        for column in (left, left + 1):
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                share = (1 - (y - row).abs()) * (1 - (x - column).abs())
                total = total + image[:, row, column] * share
    return total


def _convolve(
    x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor,
    bias: torch.Tensor, *options: int,
) -> torch.Tensor:  # fmt: skip
    stride, padding, dilation = options[:2], options[2:4], options[4:6]
    groups, offset_groups, use_mask = options[6:]
    height, width = weight.shape[2:]
    channels, outputs = x.shape[1] // groups, weight.shape[0] // groups
    rows = []
    for n, i, j in torch.cartesian_prod(
        *map(torch.arange, (x.shape[0], *offset.shape[2:]))
    ).tolist():
        values = bias.clone()
        for k in range(height * width):
            pixels = []
            for g in range(offset_groups):
                channel = 2 * (g * height * width + k)
                y = i * stride[0] - padding[0] + k // width * dilation[0] + offset[n, channel, i, j]
                left = j * stride[1] - padding[1] + k % width * dilation[1]
                part = x[n].chunk(offset_groups)[g]
                pixel = _pixel(part, y, left + offset[n, channel + 1, i, j])
                pixels.append(pixel * mask[n, g * height * width + k, i, j] if use_mask else pixel)
            taken, kernel = torch.cat(pixels), weight[:, :, k // width, k % width]
            products = [
                kernel[o * outputs : (o + 1) * outputs] @ taken[o * channels : (o + 1) * channels]
                for o in range(groups)
            ]
            values = values + torch.cat(products)
        rows.append(values)
    sizes = (x.shape[0], *offset.shape[2:], weight.shape[0])
    return torch.stack(rows).reshape(sizes).permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("groups", "offset_groups", "use_mask"), [(1, 1, True), (2, 1, False), (1, 2, True)]
)
def test_it_and_its_gradients(groups: int, offset_groups: int, use_mask: bool) -> None:
    generator = torch.Generator().manual_seed(groups)

    def randn(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    options = (2, 1, 1, 0, 1, 2, groups, offset_groups, use_mask)
    mask = randn(1, offset_groups * 6, 2, 3) if use_mask else torch.zeros(1, 1)
    tensors = [
        randn(1, 4, 4, 5), randn(2, 4 // groups, 3, 2), randn(1, offset_groups * 12, 2, 3) * 2,
        mask, randn(2),
    ]  # fmt: skip
    check(vision.deform_conv2d.default, *tensors, *options, expect=_convolve, rtol=1e-4, atol=1e-5)
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    output = _convolve(*leaves, *options)
    grad = randn(*output.shape)
    gradients = torch.autograd.grad(output, leaves, grad, materialize_grads=True, allow_unused=True)
    check(
        vision._deform_conv2d_backward.default, grad, *tensors, *options,
        expect=lambda *_: gradients, rtol=1e-4, atol=1e-5,
    )  # fmt: skip
