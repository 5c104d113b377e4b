# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.softmax  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered

aten = torch.ops.aten
INF = float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("shape", "dim"), [((2, 3, 4), 1), ((2, 3), -1), ((), 0), ((0, 3), 1), ((3, 0), 1)]
)
def test_values_and_gradients(dtype: torch.dtype, shape: Any, dim: Any) -> None:
    x = (torch.randn(shape) * 9).to(dtype)
    for forward, backward in [
        (aten._softmax.default, aten._softmax_backward_data.default),
        (aten._log_softmax.default, aten._log_softmax_backward_data.default),
    ]:
        check(forward, x, dim, False)
        out = forward(x, dim, False)
        check(backward, torch.randn_like(out), out, dim, dtype)


def test_infinities() -> None:
    x = torch.tensor([[-INF, -INF], [0, -INF], [INF, 1], [float("nan"), 1], [3e38, -3e38]])
    for op in (aten._softmax.default, aten._log_softmax.default):
        check(op, x, 1, False)
    check(aten._safe_softmax.default, x, 1)
    for value in (INF, -INF, float("nan"), 2.0):
        number = torch.tensor(value)
        check(aten._safe_softmax.default, number, 0)
        for forward, backward in (
            (aten._softmax.default, aten._softmax_backward_data.default),
            (aten._log_softmax.default, aten._log_softmax_backward_data.default),
        ):
            check(forward, number, 0, False)
            check(backward, number, forward(number, 0, False), 0, torch.float32)


def test_dropout() -> None:
    x = torch.ones(100, 100)
    out, mask = lowered(aten.native_dropout.default, x, 0.25, True)
    assert 0.72 < mask.mean() < 0.78
    assert ((out == 0) == ~mask).all()
    assert abs(float(out.max()) - 1 / 0.75) < 1e-6
    out, mask = lowered(aten.native_dropout.default, x, 1.0, True)
    assert not out.any()
    assert not mask.any()
    out, mask = lowered(aten.native_dropout.default, x, 0.0, True)
    assert (out == 1).all()
    out, mask = lowered(aten.native_dropout.default, x, 0.5, False)
    assert (out == 1).all()
    assert mask.all()
    grad, mask = torch.randn(5, 5), torch.rand(5, 5) < 0.5
    check(aten.native_dropout_backward.default, grad, mask, 2.0)
    check(aten.native_dropout_backward.default, grad > 0, mask, 2.0)
