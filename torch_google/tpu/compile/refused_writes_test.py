# SPDX-License-Identifier: Apache-2.0
"""Writes that torch rejects: to a tensor that a backward pass needs, and to inference tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

Step = Callable[..., Any]


@pytest.fixture(autouse=True, params=["programs", "cpu_kernels"])
def _kernels(request: Any) -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(request.param == "cpu_kernels")
    yield
    torch.tpu.set_cpu_kernels(before)


def _result(step: Step, device: str, size: int) -> torch.Tensor:
    y = step(torch.ones(size, device=device, requires_grad=True))
    y.add_(1)
    return y


def _argument(step: Step, device: str, size: int) -> torch.Tensor:
    w = torch.ones(size, device=device, requires_grad=True)
    y = step(w)
    with torch.no_grad():
        w.mul_(2)
    return y


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize(
    ("write", "function"),
    [
        (_result, lambda w: w.exp()),
        (_result, lambda w: w.outer(w).softmax(-1)),
        (_argument, lambda w: w * w),
    ],
)
def test_a_write_to_what_the_backward_pass_needs(
    write: Callable[[Step, str, int], torch.Tensor], function: Step, device: str, dynamic: bool
) -> None:
    for backend in ("aot_eager", "tpu"):
        torch._dynamo.reset()
        step = torch.compile(function, backend=backend, dynamic=dynamic)
        for size in (4, 5, 6):
            y = write(step, device, size)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_write_to_a_result_that_the_backward_pass_does_not_need(
    device: str, dynamic: bool
) -> None:
    step = torch.compile(lambda w: w * 3, backend="tpu", dynamic=dynamic)
    for size in (4, 5, 6):
        w = torch.ones(size, device=device, requires_grad=True)
        y = step(w)
        y.add_(1)
        y.sum().backward()
        assert y.tolist() == [4.0] * size
        assert w.grad is not None
        assert w.grad.tolist() == [3.0] * size


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_write_to_an_inference_tensor_keeps_the_other_values(dynamic: bool) -> None:
    def write(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        one.add_(1)
        other.add_(1)
        return one + other

    torch._dynamo.reset()
    step = torch.compile(write, backend="tpu", dynamic=dynamic)
    for size in (4096, 4100, 4104):
        with torch.inference_mode():
            inference = torch.zeros(size, device="tpu")
        for is_first in (False, True):
            x = torch.zeros(size, device="tpu")
            with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
                step(*((inference, x) if is_first else (x, inference)))
            assert len(set(x.tolist())) == 1
        with torch.inference_mode():
            inference.zero_()
            both = step(inference, torch.zeros(size, device="tpu"))
            assert both.tolist() == [2.0] * size
            assert inference.tolist() == [1.0] * size
