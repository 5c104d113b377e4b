# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.embedding  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("by_frequency", [True, False])
@pytest.mark.parametrize("padding", [-1, 2])
def test_rows_and_gradient(dtype: torch.dtype, by_frequency: Any, padding: Any) -> None:
    weight = torch.randn(5, 3).to(dtype)
    for indices in (
        torch.tensor([[0, 2, 2], [4, 2, 0]]),
        torch.tensor(1),
        torch.zeros(0, dtype=torch.int64),
    ):
        check(aten.embedding.default, weight, indices, padding)
        grad = torch.randn(*indices.shape, 3).to(dtype)
        backward = aten.embedding_dense_backward.default
        check(backward, grad, indices, 5, padding, by_frequency)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_bags(mode: Any, padding: Any, last: Any, weighted: Any) -> None:
    if weighted and mode != 0:
        pytest.skip("torch only supports weights for sums")
    weight = torch.randn(6, 4).double()
    indices = torch.tensor([1, 3, 3, 0, 5, 1, 2])
    offsets = torch.tensor([0, 3, 3, 5, *([7] if last else [])])  # the second bag is empty
    samples = torch.randn(7).double() if weighted else None
    args = (weight, indices, offsets, False, mode, False, samples, last, padding)
    check(aten._embedding_bag.default, *args, only=1)
    out, bag, size, where = aten._embedding_bag.default(*args)
    if not bag.numel():
        bag = torch.tensor([0, 0, 0, 2, 2, 3, 3])
    grad = torch.randn_like(out)
    backward = aten._embedding_bag_dense_backward.default
    check(backward, grad, indices, bag, size, where, 6, False, mode, samples, padding)
    if weighted:
        op = aten._embedding_bag_per_sample_weights_backward.default
        check(op, grad, weight, indices, offsets[:4], bag, 0, padding)


def test_bags_of_one_scale_by_frequency_as_rows_do() -> None:
    # Do not compare with torch's embedding_bag, whose CPU kernel reads the counts at the wrong
    # indices.
    indices, grad = torch.tensor([1, 3, 3, 0, 5, 1, 2]), torch.randn(7, 4)
    ones = torch.ones(7, dtype=torch.int64)
    (actual,) = lowered(
        aten._embedding_bag_dense_backward.default,
        grad, indices, torch.arange(7), ones, ones[:0], 6, True, 0, None, -1,
    )  # fmt: skip
    expected = aten.embedding_dense_backward.default(grad, indices, 6, -1, True)
    assert abs(actual - expected.numpy()).max() < 1e-6


@pytest.mark.parametrize("by_frequency", [True, False])
def test_a_row_that_does_not_exist_gets_no_gradient(by_frequency: bool) -> None:
    backward = aten.embedding_dense_backward.default
    grad, indices = torch.ones(3, 2), torch.tensor([-1, 0, 7])
    (actual,) = lowered(backward, grad, indices, 4, -1, by_frequency)
    assert actual.sum(1).tolist() == [2, 0, 0, 0]
    (actual,) = lowered(aten.embedding_renorm.default, torch.ones(4, 4), indices, 1.0, 2.0)
    assert actual.sum(1).tolist() == pytest.approx([2, 4, 4, 4])


def test_renorm() -> None:
    weight, indices = torch.randn(5, 3) * 3, torch.tensor([0, 2, 2])
    expect = lambda *args: torch.embedding_renorm_(args[0].clone(), *args[1:])  # noqa: E731
    check(aten.embedding_renorm.default, weight, indices, 1.0, 2.0, expect=expect)
