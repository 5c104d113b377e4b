# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.pooling  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten

# Each case is (input, kernel, stride, padding, dilation, ceil).
MAX2D: dict[str, Any] = {
    "square": ((2, 3, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], False),
    "overlap, padding": ((2, 3, 9, 7), [3, 2], [2, 1], [1, 1], [1, 1], False),
    "ceil": ((1, 2, 8, 9), [3, 3], [2, 3], [1, 0], [1, 1], True),
    "ceil, last window in the padding": ((1, 1, 4, 4), [2], [3], [1], [1], True),
    "dilation": ((1, 2, 11, 10), [3, 2], [1, 3], [1, 1], [3, 2], True),
    "no stride": ((2, 9, 7), [3], [], [0], [1], False),
    "large window": ((1, 2, 14, 13), [9, 8], [2, 3], [4, 1], [1, 1], True),
    "empty batch": ((0, 3, 8, 8), [2, 2], [2, 2], [0, 0], [1, 1], False),
}


@pytest.mark.parametrize("case", MAX2D)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_max_pool2d(case: str, dtype: torch.dtype) -> None:
    shape, *window = MAX2D[case]
    x = torch.randn(shape).to(dtype)
    check(aten.max_pool2d_with_indices.default, x, *window)
    out, indices = aten.max_pool2d_with_indices.default(x, *window)
    grad = torch.randn_like(out)
    check(aten.max_pool2d_with_indices_backward.default, grad, x, *window, indices)


def test_max_pool_ties_nan_and_all_minus_infinity() -> None:
    nan, inf = float("nan"), float("inf")
    for x in (
        torch.zeros(1, 1, 4, 4),
        torch.tensor([[[[1.0, nan, 2], [nan, 0, 1], [3, 1, 1]]]]),
        torch.full((1, 1, 5, 5), -inf),
        torch.randint(-3, 3, (1, 2, 6, 6)),
    ):
        check(aten.max_pool2d_with_indices.default, x, [2, 2], [1, 1], [1, 1])


def test_max_pool3d() -> None:
    x = torch.randn(1, 2, 5, 6, 7)
    window = ([2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 2, 1], True)
    check(aten.max_pool3d_with_indices.default, x, *window)
    out, indices = aten.max_pool3d_with_indices.default(x, *window)
    grad = torch.randn_like(out)
    check(aten.max_pool3d_with_indices_backward.default, grad, x, *window, indices)


# Each case is (input, kernel, stride, padding, ceil, count padding, divisor).
AVG2D: dict[str, Any] = {
    "square": ((2, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, True, None),
    "padding counts": ((2, 3, 9, 7), [3, 2], [2, 1], [1, 1], False, True, None),
    "padding does not": ((2, 3, 9, 7), [3, 2], [2, 1], [1, 1], False, False, None),
    "ceil": ((1, 2, 8, 9), [3, 3], [2, 4], [1, 0], True, True, None),
    "ceil without padding": ((1, 2, 8, 9), [3, 3], [2, 4], [1, 1], True, False, None),
    "divisor": ((2, 8, 9), [3], [], [1], True, False, 5),
    "the end is not reached": ((1, 1, 9, 9), [2, 2], [4, 4], [0, 0], False, True, None),
    "empty batch": ((0, 3, 8, 8), [2, 2], [2, 2], [0, 0], False, True, None),
}


@pytest.mark.parametrize("case", AVG2D)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_avg_pool2d(case: str, dtype: torch.dtype) -> None:
    shape, *window = AVG2D[case]
    x = torch.randn(shape).to(dtype)
    check(aten.avg_pool2d.default, x, *window)
    out = aten.avg_pool2d.default(x, *window)
    check(aten.avg_pool2d_backward.default, torch.randn_like(out), x, *window)


def test_avg_pool3d_and_integers() -> None:
    x = torch.randn(1, 2, 5, 6, 7)
    window = ([2, 3, 2], [2, 1, 2], [1, 1, 0], True, False, None)
    check(aten.avg_pool3d.default, x, *window)
    grad = torch.randn_like(aten.avg_pool3d.default(x, *window))
    check(aten.avg_pool3d_backward.default, grad, x, *window)
    check(aten.avg_pool2d.default, torch.randint(-9, 9, (1, 2, 6, 6)), [2, 2], [2, 2])
