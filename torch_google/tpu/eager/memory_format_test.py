# SPDX-License-Identifier: Apache-2.0
"""Results and gradients of channels-last inputs have the same memory layout as on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

LAST = torch.channels_last


def attention(x: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(x, x, x)


def batch_norm(x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, None, None, training=True)


def evaluated_batch_norm(x: torch.Tensor) -> torch.Tensor:
    mean, variance = x.new_zeros(4), x.new_ones(4)
    return functional.batch_norm(x, mean, variance)


def convolution(x: torch.Tensor) -> torch.Tensor:
    return functional.conv2d(x, x.new_ones(2, 4, 3, 3))


def padded(x: torch.Tensor) -> torch.Tensor:
    return functional.pad(x, (1, 2, 0, 1), mode="reflect")


def shuffled(x: torch.Tensor) -> torch.Tensor:
    return functional.channel_shuffle(x, 2)


@pytest.mark.parametrize(
    "function",
    [
        attention,
        batch_norm,
        convolution,
        evaluated_batch_norm,
        functional.elu,
        functional.logsigmoid,
        padded,
        shuffled,
    ],
)
@pytest.mark.parametrize("input_format", [LAST, torch.contiguous_format])
@pytest.mark.parametrize("taken", [LAST, torch.contiguous_format])
def test_channels_are_where_the_cpu_has_them(
    function: Callable[[torch.Tensor], torch.Tensor],
    input_format: torch.memory_format,
    taken: torch.memory_format,
) -> None:
    def strides(device: str) -> list[tuple[int, ...]]:
        x = torch.rand(2, 4, 5, 6).to(memory_format=input_format).to(device).requires_grad_()
        out = function(x)
        (grad,) = torch.autograd.grad(out, x, torch.ones_like(out).to(memory_format=taken))
        return [out.stride(), grad.stride()]

    assert strides("tpu") == strides("cpu")
