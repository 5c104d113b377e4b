# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.losses  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
OPTIONS: dict[str, Any] = {
    "mse_loss": [()],
    "smooth_l1_loss": [(1.0,), (0.3,), (0.0,)],
    "huber_loss": [(1.0,), (0.3,)],
    "soft_margin_loss": [()],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", OPTIONS)
def test_element_by_element(name: str, reduction: Any, dtype: torch.dtype) -> None:
    x, target = torch.randn(3, 4).to(dtype), torch.randn(3, 4).to(dtype)
    target[0, 0] = x[0, 0]
    for option in OPTIONS[name]:
        forward = getattr(aten, name).default
        check(forward, x, target, reduction, *option)
        grad = torch.randn(forward(x, target, reduction, *option).shape).to(dtype)
        backward = getattr(aten, f"{name}_backward").default
        check(backward, grad, x, target, reduction, *option)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weight", [None, torch.rand(4)])
def test_binary_cross_entropy(reduction: Any, weight: Any) -> None:
    x, target = torch.rand(3, 4), torch.rand(3, 4)
    x[0], target[0] = torch.tensor([0.0, 1, 0, 1]), torch.tensor([0.0, 1, 1, 0])
    forward = aten.binary_cross_entropy.default
    check(forward, x, target, weight, reduction)
    grad = torch.randn(forward(x, target, weight, reduction).shape)
    wide = None if weight is None else weight.expand(3, 4).contiguous()
    check(aten.binary_cross_entropy_backward.default, grad, x, target, wide, reduction)
    logits = torch.randn(3, 4) * 50
    for pos_weight in (None, torch.rand(4)):
        args = (logits, target, weight, pos_weight, reduction)
        check(aten.binary_cross_entropy_with_logits.default, *args)


def test_the_mean_of_nothing_is_nan() -> None:
    check(aten.mse_loss.default, torch.randn(0, 3), torch.randn(0, 3))
