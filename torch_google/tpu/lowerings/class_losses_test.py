# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.class_losses  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize(
    ("shape", "weighted"), [((5,), False), ((6, 5), True), ((2, 5, 3, 4), True), ((0, 5), False)]
)
def test_negative_log_likelihood(
    shape: Any, weighted: Any, reduction: Any, dtype: torch.dtype
) -> None:
    x = torch.randn(shape).to(dtype)
    axis = 0 if len(shape) == 1 else 1
    target = torch.randint(0, 5, shape[:axis] + shape[axis + 1 :])
    if target.numel() > 2:
        target.view(-1)[1], target.view(-1)[2] = -100, 2
    weight = torch.rand(5).to(dtype) if weighted else None
    two = "2d" if len(shape) == 4 else ""
    forward = getattr(aten, f"nll_loss{two}_forward").default
    backward = getattr(aten, f"nll_loss{two}_backward").default
    for ignore in (-100, 2):
        if ignore == 2:
            target = target.clamp(min=0)
        check(forward, x, target, weight, reduction, ignore)
        out, total = forward(x, target, weight, reduction, ignore)
        grad = torch.randn(out.shape).to(dtype)
        check(backward, grad, x, target, weight, reduction, ignore, total)


def test_all_ignored_is_nan_in_the_mean() -> None:
    x, target = torch.randn(3, 4), torch.full((3,), -100)
    check(aten.nll_loss_forward.default, x, target, None, 1, -100)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin(reduction: Any, p: Any) -> None:
    for x, target in (
        (torch.randn(4, 5), torch.randint(0, 5, (4,))),
        (torch.randn(5), torch.tensor(3)),
        (torch.randn(5), torch.tensor([3])),
        (torch.randn(()), torch.tensor(0)),
    ):
        for weight in (None, torch.rand(x.shape[-1] if x.ndim else 1)):
            args = (target, p, 0.7, weight, reduction)
            check(aten.multi_margin_loss.default, x, *args)
            grad = torch.randn(aten.multi_margin_loss.default(x, *args).shape)
            check(aten.multi_margin_loss_backward.default, grad, x, *args)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_multilabel_margin(reduction: Any) -> None:
    target = torch.tensor([[3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3]])
    for x, t in ((torch.randn(3, 4), target), (torch.randn(4), target[0])):
        check(aten.multilabel_margin_loss_forward.default, x, t, reduction)
        out, is_target = aten.multilabel_margin_loss_forward.default(x, t, reduction)
        backward = aten.multilabel_margin_loss_backward.default
        check(backward, torch.randn(out.shape), x, t, reduction, is_target)
