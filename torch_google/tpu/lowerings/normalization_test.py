# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.normalization  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check
from torch_google.tpu.release import V2_6

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (0, 3, 4, 5)])
def test_layer_norm(dtype: torch.dtype, affine: Any, shape: Any) -> None:
    x = torch.randn(shape).to(dtype)
    weight, bias = (torch.randn(4, 5).to(dtype) for _ in range(2)) if affine else (None, None)
    check(aten.native_layer_norm.default, x, [4, 5], weight, bias, 1e-5)
    out, mean, rstd = aten.native_layer_norm.default(x, [4, 5], weight, bias, 1e-5)
    grad, mask = torch.randn_like(out), [True, affine, affine]
    backward = aten.native_layer_norm_backward.default
    check(backward, grad, x, [4, 5], mean, rstd, weight, bias, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(dtype: torch.dtype, affine: Any) -> None:
    x = torch.randn(2, 6, 3, 5).to(dtype)
    weight, bias = (torch.randn(6).to(dtype) for _ in range(2)) if affine else (None, None)
    options = (2, 6, 15, 3)
    check(aten.native_group_norm.default, x, weight, bias, *options, 1e-5)
    out, mean, rstd = aten.native_group_norm.default(x, weight, bias, *options, 1e-5)
    mask = [True, affine, affine]
    backward = aten.native_group_norm_backward.default
    check(backward, torch.randn_like(out), x, mean, rstd, weight, *options, mask)


@pytest.mark.skipif(V2_6, reason="v2.6 decomposes it")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm(dtype: torch.dtype) -> None:
    x, weight = torch.randn(2, 3, 8).to(dtype), torch.randn(8).to(dtype)
    for eps in (1e-3, None):
        check(aten._fused_rms_norm.default, x, [8], weight, eps)
    out, rstd = aten._fused_rms_norm.default(x, [8], weight, 1e-3)
    mask = [True, True]
    grad = torch.randn_like(out)
    x = x.requires_grad_()
    weight = weight.requires_grad_()
    torch.nn.functional.rms_norm(x, [8], weight, 1e-3).backward(grad)
    check(
        aten._fused_rms_norm_backward.default,
        grad, x, [8], rstd, weight, mask,
        expect=lambda *_: (x.grad, weight.grad),
    )  # fmt: skip
