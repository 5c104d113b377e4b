# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.adaptive_pooling  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
SIZES = [
    ((2, 3, 7, 8), [3, 5]),
    ((3, 8, 6), [1, 1]),
    ((0, 2, 7, 8), [2, 3]),
    ((0, 2, 6, 8), [2, 4]),
    ((1, 2, 3, 4), [7, 4]),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("shape", "size"), SIZES)
def test_adaptive_in_two_dimensions(dtype: torch.dtype, shape: Any, size: Any) -> None:
    x = torch.randn(shape).to(dtype)
    check(aten._adaptive_avg_pool2d.default, x, size)
    grad = torch.randn(*shape[:-2], *size).to(dtype)
    check(aten._adaptive_avg_pool2d_backward.default, grad, x)
    check(aten.adaptive_max_pool2d.default, x, size)
    _, indices = aten.adaptive_max_pool2d.default(x, size)
    check(aten.adaptive_max_pool2d_backward.default, grad, x, indices)


def test_adaptive_in_three_dimensions() -> None:
    x, size = torch.randn(2, 3, 7, 8, 5), [3, 1, 5]
    check(aten._adaptive_avg_pool3d.default, x, size)
    grad = torch.randn(2, 3, *size)
    check(aten._adaptive_avg_pool3d_backward.default, grad, x)
    check(aten.adaptive_max_pool3d.default, x, size)
    _, indices = aten.adaptive_max_pool3d.default(x, size)
    check(aten.adaptive_max_pool3d_backward.default, grad, x, indices)


def test_a_window_with_nan_or_infinity_stays_alone() -> None:
    x = torch.randn(1, 1, 6, 6)
    x[0, 0, 0, 0], x[0, 0, 5, 5] = float("nan"), float("inf")
    check(aten._adaptive_avg_pool2d.default, x, [3, 3])
    check(aten.adaptive_max_pool2d.default, x, [4, 4])


@pytest.mark.parametrize("size", [[3, 4], [1, 5]])
def test_fractional_in_two_dimensions(size: Any) -> None:
    x, samples = torch.randn(2, 3, 11, 13), torch.rand(2, 3, 2)
    check(aten.fractional_max_pool2d.default, x, [2, 3], size, samples)
    out, indices = aten.fractional_max_pool2d.default(x, [2, 3], size, samples)
    backward = aten.fractional_max_pool2d_backward.default
    check(backward, torch.randn_like(out), x, [2, 3], size, indices)


def test_fractional_in_three_dimensions() -> None:
    x, samples = torch.randn(2, 3, 7, 8, 9), torch.rand(2, 3, 3)
    window = ([2, 3, 2], [3, 4, 5])
    check(aten.fractional_max_pool3d.default, x, *window, samples)
    out, indices = aten.fractional_max_pool3d.default(x, *window, samples)
    backward = aten.fractional_max_pool3d_backward.default
    check(backward, torch.randn_like(out), x, *window, indices)


def test_fractional_without_a_batch_takes_the_first_samples() -> None:
    samples = torch.rand(2, 3, 3)
    check(aten.fractional_max_pool3d.default, torch.randn(3, 7, 7, 7), [2] * 3, [3] * 3, samples)
    check(
        aten.fractional_max_pool2d.default, torch.randn(3, 7, 7), [2] * 2, [3] * 2, samples[..., :2]
    )
