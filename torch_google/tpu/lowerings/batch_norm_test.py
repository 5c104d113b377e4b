# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.batch_norm  # noqa: F401 (registers)
from torch_google.tpu.lowerings.agreement import assert_agrees

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
def test_forward_and_backward(dtype: torch.dtype, affine: Any, training: Any, shape: Any) -> None:
    x = torch.randn(shape).to(dtype)
    weight, bias = (torch.randn(3).to(dtype) for _ in range(2)) if affine else (None, None)
    mean, var = torch.randn(3).to(dtype), torch.rand(3).to(dtype) + 0.5
    stats = (x, weight, bias, mean, var)
    assert_agrees(aten._native_batch_norm_legit_functional.default, *stats, training, 0.1, 1e-5)
    _, save_mean, save_rstd = aten.native_batch_norm.default(
        x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5
    )
    saved = (mean, var, save_mean, save_rstd, training, 1e-5)
    for mask in ([True, affine, affine], [True, False, False]):
        backward = aten.native_batch_norm_backward.default
        assert_agrees(backward, torch.randn_like(x), x, weight, *saved, mask)


def test_other_spellings() -> None:
    x, weight, bias = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)
    mean, var = torch.randn(3), torch.rand(3)
    assert_agrees(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, 0.1, 1e-5)
    stats = (x, weight, bias, mean, var, 0.1, 1e-5)
    assert_agrees(aten._native_batch_norm_legit_no_training.default, *stats)
    assert_agrees(aten._batch_norm_with_update_functional.default, *stats)
    assert_agrees(aten._batch_norm_no_update.default, *stats)


def test_bfloat16_with_float32_statistics() -> None:
    x = torch.randn(4, 3, 5).bfloat16()
    stats = (torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3))
    assert_agrees(aten._native_batch_norm_legit_functional.default, x, *stats, True, 0.1, 1e-5)
