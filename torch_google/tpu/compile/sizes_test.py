# SPDX-License-Identifier: Apache-2.0
"""A new size or scalar argument recompiles a graph only if no existing program applies."""

import math
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import nn


def test_one_program_for_each_size() -> None:
    function = torch.compile(
        lambda x: x * x.shape[0] + x.sum(),
        dynamic=True,
        backend="tpu",
        options={"buckets": False},
    )
    for size in (2, 5, 3, 5, 2, 9):
        x = torch.rand(size, 3)
        torch.testing.assert_close(function(x.to("tpu")).cpu(), x * size + x.sum())
    assert torch.tpu.metrics().graphs == {"compile": 4, "call": 6}


def test_one_program_for_each_bucket() -> None:
    function = torch.compile(lambda x: x * x.shape[0] + x.sum(), dynamic=True)
    for size in (2, 5, 3, 5, 2, 9):
        x = torch.rand(size, 3)
        torch.testing.assert_close(function(x.to("tpu")).cpu(), x * size + x.sum())
    # The first size gets a separate program without padding, because no size has changed yet. The
    # buckets 8 and 16 get one program each.
    assert torch.tpu.metrics().graphs["compile"] == 3


def test_the_number_of_programs_is_bounded() -> None:
    function = torch.compile(
        lambda x: x + 1,
        dynamic=True,
        backend="tpu",
        options={"buckets": False, "max_programs": 2},
    )
    for size in (2, 3, 4, 3, 2):
        assert function(torch.zeros(size, device="tpu")).tolist() == [1.0] * size
    assert torch.tpu.metrics().graphs == {"compile": 4, "call": 5, "evict": 2}


def test_gradients_of_symbolic_sizes() -> None:
    model = nn.Linear(3, 3)
    device_model = deepcopy(model).to("tpu")
    compiled = torch.compile(device_model, dynamic=True)
    for size in (2, 5, 3):
        x = torch.rand(size, 3)
        model(x).sum().backward()
        compiled(x.to("tpu")).sum().backward()
    assert device_model.weight.grad is not None
    torch.testing.assert_close(device_model.weight.grad.cpu(), model.weight.grad)


def test_other_numbers_do_not_compile_again() -> None:
    scale = torch.compile(lambda x, by: x * by + by)
    for by in (1.0, 2.5, 3.5, 4.5, 5.5):
        assert scale(torch.ones(2, device="tpu"), by).tolist() == [2 * by] * 2
    # Dynamo treats a scalar as a constant at first, and turns it into an input when it changes.
    assert torch.tpu.metrics().graphs["compile"] == 2
    torch.tpu.reset_metrics()
    count = torch.compile(lambda x, by: x * by + by)
    for by in range(2, 8):
        assert count(torch.ones(2, device="tpu"), by).tolist() == [2.0 * by] * 2
    assert torch.tpu.metrics().graphs["compile"] == 2


def test_a_size_as_a_result() -> None:
    function = torch.compile(lambda x: (x.shape[0] * 2, x + 1), dynamic=True)
    for size in (2, 5):
        assert function(torch.zeros(size, device="tpu"))[0] == 2 * size


@pytest.mark.parametrize("buckets", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: int(x.shape[0] * 0.5)] + 1,
        lambda x: x.new_ones(max(x.shape[0], 4)) * x.sum(),
        lambda x: x.new_ones(math.ceil(x.shape[0] / 8) * 8) * x.sum(),
    ],
)
def test_arithmetic_of_sizes(
    function: Callable[[torch.Tensor], torch.Tensor], buckets: bool
) -> None:
    compiled = torch.compile(function, dynamic=True, backend="tpu", options={"buckets": buckets})
    for size in (10, 3, 7):
        x = torch.rand(size, 3)
        torch.testing.assert_close(compiled(x.to("tpu")).cpu(), function(x))


def test_bits_of_numbers() -> None:
    function = torch.compile(lambda x, n: x * (n & 3) + (n | 8), dynamic=True)
    for number in (6, 5, 12):
        actual = function(torch.ones(3, device="tpu"), number)
        assert actual.tolist() == [float((number & 3) + (number | 8))] * 3
