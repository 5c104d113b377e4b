# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.grid_sampling  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("corners", [True, False])
def test_two_dimensions(mode: Any, padding: Any, corners: Any) -> None:
    x, grid = torch.randn(2, 3, 5, 6), torch.randn(2, 4, 3, 2) * 1.5
    options = (mode, padding, corners)
    check(aten.grid_sampler_2d.default, x, grid, *options, **CLOSE)
    grad = torch.randn(2, 3, 4, 3)
    backward = aten.grid_sampler_2d_backward.default
    check(backward, grad, x, grid, *options, [True, True], **CLOSE)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"), [(0, 0, True), (0, 2, False), (1, 1, False), (1, 2, True)]
)
def test_three_dimensions(mode: Any, padding: Any, corners: Any) -> None:
    x, grid = torch.randn(2, 3, 4, 5, 6).double(), torch.randn(2, 2, 4, 3, 3).double() * 1.5
    options = (mode, padding, corners)
    check(aten.grid_sampler_3d.default, x, grid, *options)
    backward = aten.grid_sampler_3d_backward.default
    grad = torch.randn(2, 3, 2, 4, 3).double()
    check(backward, grad, x, grid, *options, [True, True])


def test_empty_batch_and_far_points() -> None:
    op = aten.grid_sampler_2d.default
    check(op, torch.randn(0, 3, 5, 6), torch.randn(0, 4, 3, 2), 0, 0, False)
    far = torch.tensor([1e9, -1e9, 1.0, -1.0]).reshape(1, 2, 1, 2)
    for padding in (0, 1):
        check(op, torch.randn(1, 2, 4, 4), far, 0, padding, False, **CLOSE)
