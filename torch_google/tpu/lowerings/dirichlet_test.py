# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest
import torch

import torch_google.tpu.lowerings.dirichlet  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

_SHAPES = torch.tensor([1e-3, 0.3, 1.0, 2.5, 5.9, 6.1, 20.0, 300.0], dtype=torch.float64)
_DRAWS = torch.tensor([1e-9, 1e-3, 0.1, 0.3, 0.49, 0.5, 0.51, 0.7, 0.9, 0.999], dtype=torch.float64)


@pytest.mark.parametrize("near_the_mean", [False, True])
def test_each_approximation(near_the_mean: bool) -> None:
    draws, alpha, beta = torch.meshgrid(_DRAWS, _SHAPES, _SHAPES, indexing="ij")
    total = alpha + beta
    if near_the_mean:
        draws = (alpha / total * (1 + draws * 1e-3)).clamp(max=1 - 1e-9)
    check(torch.ops.aten._dirichlet_grad.default, draws, alpha, total, rtol=1e-6, atol=1e-12)


def test_single_precision_and_no_draws() -> None:
    draws = torch.tensor([0.1, 0.3, 0.6])
    alpha = torch.tensor([0.5, 2.0, 7.0])
    check(torch.ops.aten._dirichlet_grad.default, draws, alpha, alpha + 3, rtol=1e-4)
    none = torch.empty(0, 3)
    check(torch.ops.aten._dirichlet_grad.default, none, none, none)
