# SPDX-License-Identifier: Apache-2.0
"""Matmuls and convolutions of empty tensors match the CPU in shapes, dtypes and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

_CONVOLUTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "1d": (functional.conv1d, ((2, 0, 5), (3, 0, 3))),
    "2d with a bias": (functional.conv2d, ((1, 0, 4, 4), (3, 0, 3, 3), (3,))),
    "3d": (functional.conv3d, ((1, 0, 4, 4, 4), (3, 0, 3, 3, 3))),
    "strides": (
        lambda x, w: functional.conv2d(x, w, stride=2, padding=1, dilation=2),
        ((1, 0, 8, 8), (3, 0, 3, 3)),
    ),
    "no batch": (functional.conv2d, ((0, 2, 4, 4), (3, 2, 3, 3), (3,))),
    "one image": (functional.conv2d, ((0, 4, 4), (3, 0, 3, 3))),
}
_DTYPES = (torch.bool, torch.bfloat16, torch.int64, torch.float32, torch.complex64)


@pytest.mark.parametrize("name", _CONVOLUTIONS)
def test_a_convolution_of_no_channels(name: str) -> None:
    convolve, sizes = _CONVOLUTIONS[name]
    results = []
    for device in ("cpu", "tpu"):
        tensors = [torch.ones(size, device=device, requires_grad=True) for size in sizes]
        result = convolve(*tensors)
        results.append([result, *torch.autograd.grad(result.sum(), tensors)])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("product", ["bmm", "baddbmm", "einsum"])
@pytest.mark.parametrize("first", _DTYPES)
@pytest.mark.parametrize("second", _DTYPES)
def test_a_product_of_nothing_takes_two_dtypes(
    first: torch.dtype, second: torch.dtype, product: str
) -> None:
    for rows, inner, columns in ((0, 3, 2), (2, 0, 2), (2, 3, 0), (2, 3, 2)):

        def multiply(device: str, sizes: tuple[int, int, int] = (rows, inner, columns)) -> str:
            m, k, n = sizes
            a = torch.ones(1, m, k, dtype=first, device=device)
            b = torch.ones(1, k, n, dtype=second, device=device)
            try:
                if product == "einsum":
                    result = torch.einsum("bij,bjk->bik", a, b)
                elif product == "bmm":
                    result = torch.bmm(a, b)
                else:
                    result = torch.baddbmm(torch.ones(1, m, n, dtype=first, device=device), a, b)
            except RuntimeError as error:
                return f"{type(error).__name__}: {error}".splitlines()[0]
            return f"{result.dtype} {tuple(result.shape)} {result.tolist()}"

        assert multiply("tpu") == multiply("cpu")
