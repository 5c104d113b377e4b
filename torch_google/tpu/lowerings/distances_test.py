# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

import torch_google.tpu.lowerings.distances  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered

aten = torch.ops.aten


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_values_and_gradients(p: float) -> None:
    x1, x2 = torch.randn(2, 4, 3).double(), torch.randn(2, 5, 3).double()
    x2[0, 0] = x1[0, 0]
    check(aten._cdist_forward.default, x1, x2, p, 2)
    distances = aten._cdist_forward.default(x1, x2, p, 2)
    grad = torch.randn(2, 4, 5).double()
    check(aten._cdist_backward.default, grad, x1, x2, p, distances)
    x = x1[0].contiguous()
    check(aten._pdist_forward.default, x, p)
    distances = aten._pdist_forward.default(x, p)
    check(aten._pdist_backward.default, torch.randn(6).double(), x, p, distances)


def test_no_rows_and_no_columns() -> None:
    check(aten._cdist_forward.default, torch.randn(0, 3), torch.randn(5, 3), 2.0, None)
    check(aten._cdist_forward.default, torch.randn(4, 0), torch.randn(5, 0), 2.0, None)
    check(aten._pdist_forward.default, torch.randn(1, 3), 2.0)


def test_gradient_of_no_pairs() -> None:
    x, nothing = torch.randn(1, 4, 5), torch.randn(0, 3, 5)
    grad = torch.randn(0, 4, 3)
    assert lowered(aten._cdist_backward.default, grad, x, nothing, 2.0, grad)[0].shape == x.shape
