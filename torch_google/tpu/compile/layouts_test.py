# SPDX-License-Identifier: Apache-2.0
"""Results of compiled functions have the same strides as eager results on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("which", ["input", "weight", "neither"])
def test_convolutions_keep_channels_where_they_are(
    dtype: torch.dtype, rank: int, which: str
) -> None:
    last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(rank, torch.contiguous_format)
    model = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[rank](3, 4, 3, padding=1).to(dtype)
    x = torch.randn(2, 3, *[5] * rank, dtype=dtype)
    x = x.to(memory_format=last) if which == "input" else x
    model = model.to(memory_format=last) if which == "weight" else model
    x.requires_grad_()
    device_model, moved = copy.deepcopy(model).to("tpu"), x.detach().to("tpu").requires_grad_()
    assert moved.stride() == x.stride()
    expected, eager = model(x), device_model(moved)
    actual = torch.compile(device_model)(moved)
    assert (actual.stride(), eager.stride()) == (expected.stride(), expected.stride())
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-4, rtol=1e-4)
    actual.sum().backward()
    expected.sum().backward()
    assert moved.grad is not None
    assert x.grad is not None
    assert moved.grad.stride() == x.grad.stride()
    torch.testing.assert_close(moved.grad.cpu(), x.grad, atol=1e-4, rtol=1e-4)
