# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.batch_norm
import torch_google.tpu.lowerings.meta_kernels  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered

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
    # In inference, the CPU returns empty statistics, but other devices return vectors.
    only = None if training else 1
    op = aten._native_batch_norm_legit_functional.default
    check(op, *stats, training, 0.1, 1e-5, only=only)
    _, save_mean, save_rstd = aten.native_batch_norm.default(
        x, weight, bias, mean.clone(), var.clone(), training, 0.1, 1e-5
    )
    saved = (mean, var, save_mean, save_rstd, training, 1e-5)
    for mask in ([True, affine, affine], [True, False, False]):
        backward = aten.native_batch_norm_backward.default
        check(backward, torch.randn_like(x), x, weight, *saved, mask)


def test_other_spellings() -> None:
    x, weight, bias = torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)
    mean, var = torch.randn(3), torch.rand(3)
    check(aten._native_batch_norm_legit.no_stats, x, weight, bias, True, 0.1, 1e-5)
    stats = (x, weight, bias, mean, var, 0.1, 1e-5)
    check(aten._native_batch_norm_legit_no_training.default, *stats, only=1)
    check(aten._batch_norm_with_update_functional.default, *stats)
    check(aten._batch_norm_no_update.default, *stats, only=1)


def test_bfloat16_with_float32_statistics() -> None:
    x = torch.randn(4, 3, 5).bfloat16()
    stats = (torch.randn(3), torch.randn(3), torch.randn(3), torch.rand(3))
    check(aten._native_batch_norm_legit_functional.default, x, *stats, True, 0.1, 1e-5)


def test_a_plain_batch_norm_that_would_change_its_statistics_is_refused() -> None:
    x, one = torch.randn(4, 3), torch.ones(3)
    check(aten.native_batch_norm.default, x, one, one, one, one, False, 0.1, 1e-5, only=1)
    check(aten.native_batch_norm.default, x, one, one, None, None, True, 0.1, 1e-5)
    with pytest.raises(NotImplementedError, match="native_batch_norm_functional"):
        lowered(aten.native_batch_norm.default, x, one, one, one, one, True, 0.1, 1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_the_pure_form_returns_the_new_statistics(training: bool) -> None:
    op = torch.ops.torch_google.native_batch_norm_functional.default
    x, mean, var = torch.randn(4, 3), torch.randn(3), torch.rand(3)
    new_mean, new_var = mean.clone(), var.clone()
    out = aten.native_batch_norm.default(x, None, None, new_mean, new_var, training, 0.1, 1e-5)
    got = lowered(op, x, None, None, mean, var, training, 0.1, 1e-5)
    for actual, expected in zip((got[0], *got[3:]), (out[0], new_mean, new_var), strict=True):
        assert abs(actual - expected.numpy()).max() < 1e-5
    assert len(lowered(op, x, None, None, None, None, True, 0.1, 1e-5)) == 5
