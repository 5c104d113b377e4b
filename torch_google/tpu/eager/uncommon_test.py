# SPDX-License-Identifier: Apache-2.0
"""Inputs that torch's sample inputs do not cover give the same results as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

_INF, _NAN = float("inf"), float("nan")


def _with_gradient(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> list[torch.Tensor]:
    x = x.detach().requires_grad_()
    result = function(x)
    result.sum().backward()
    assert x.grad is not None
    return [result.detach(), x.grad]


def _put(x: torch.Tensor, where: tuple[Any, ...]) -> torch.Tensor:
    x[where] = 5.0
    return x


CASES: dict[str, Callable[[str], Any]] = {
    "floats as whole numbers": lambda on: [
        torch.tensor([-1.0, 300.7, -129.0, 2.5]).to(on).to(dtype)
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    ],
    "floats written to bytes": lambda on: torch.zeros(3, dtype=torch.uint8, device=on).copy_(
        torch.tensor([-1.0, 300.7, 7.0]).to(on)
    ),
    "floats as uint64": lambda on: (
        torch.tensor([1e19, 3.0, 2.0**63], dtype=torch.float64).to(on).to(torch.uint64)
    ),
    "imaginary numbers as bools": lambda on: torch.tensor([1j, 0j, 2 + 0j]).to(on).to(torch.bool),
    "complex numbers as bytes": lambda on: torch.tensor([300 + 0j]).to(on).to(torch.uint8),
    "a mask and places": lambda on: _with_gradient(
        lambda x: x[torch.tensor([True, False, True]).to(on), torch.tensor([0, 1]).to(on)],
        torch.arange(6.0).view(3, 2).to(on),
    ),
    "put by a mask and places": lambda on: _put(
        torch.zeros(3, 2, device=on),
        (torch.tensor([True, False, True]).to(on), torch.tensor([0, 1]).to(on)),
    ),
    "put by two masks": lambda on: _put(
        torch.zeros(3, 2, device=on),
        (torch.tensor([True, False, True]).to(on), torch.tensor([True, True]).to(on)),
    ),
    "histogram of whole numbers": lambda on: torch.histc(
        torch.arange(101, dtype=torch.float64).to(on), 100, 0, 100
    ),
    "choice by bytes": lambda on: _with_gradient(
        lambda x: torch.where(torch.tensor([0, 1, 2], dtype=torch.uint8).to(on), x, 5.0),
        torch.arange(3.0).to(on),
    ),
    "histogram of floats": lambda on: torch.histc(torch.arange(42.0).to(on), 41, 0, 41),
    "arange of fractions as int32": lambda on: [
        torch.arange(*args, dtype=torch.int32, device=on)
        for args in ((0, 2.5), (0.5, 5.5, 1.5), (0, 5))
    ],
    "class 156, whose byte is -100 if signed": lambda on: F.nll_loss(
        torch.randn(2, 200, generator=torch.Generator().manual_seed(0)).log_softmax(1).to(on),
        torch.tensor([156, 3], dtype=torch.uint8).to(on),
        reduction="none",
    ),
    "largest of bags with NaN": lambda on: F.embedding_bag(
        torch.tensor([0, 1, 2, 0]).to(on),
        torch.tensor([[_NAN], [1.0], [2.0]]).to(on),
        torch.tensor([0, 2]).to(on),
        mode="max",
    ),
    "no windows": lambda on: F.adaptive_max_pool2d(torch.ones(1, 2, 4, 4, device=on), (0, 3)),
    "windows with several NaN": lambda on: F.adaptive_max_pool2d(
        torch.tensor([[[_NAN, 1.0], [2.0, _NAN]]]).to(on), 1, return_indices=True
    ),
    "exponential of a large matrix": lambda on: torch.matrix_exp(
        torch.diag(torch.tensor([-1e6, -2.0], dtype=torch.float64)).to(on)
    ),
    "polygamma far below zero": lambda on: torch.polygamma(
        2, torch.tensor([-31.5, -33.5, -40.5, 0.5], dtype=torch.float64).to(on)
    ),
    "zeta far below zero": lambda on: torch.special.zeta(
        3.0, torch.tensor([-33.5, -70.25, 2.0, -3.0], dtype=torch.float64).to(on)
    ),
    "segments of the last dimension": lambda on: torch.segment_reduce(
        torch.arange(5.0).to(on), "sum", lengths=torch.tensor([2, 3]).to(on), axis=-1
    ),
    "logaddexp of two complex -inf": lambda on: torch.logaddexp(
        torch.tensor([complex(-_INF, 0), 1 + 0j]).to(on),
        torch.tensor([complex(-_INF, 0), 1 + 0j]).to(on),
    ),
    "logcumsumexp that begins with complex -inf": lambda on: torch.logcumsumexp(
        torch.tensor([complex(-_INF, 0), complex(-_INF, 0), 1 + 0j]).to(on), 0
    ),
    "bincount of int8 with more bins than int8 can represent": lambda on: [
        torch.bincount(torch.tensor([1, 127], dtype=torch.int8).to(on), minlength=length)
        for length in (0, 200)
    ],
    "linspace and logspace with an odd number of steps": lambda on: [
        function(0, 2, 99, dtype=torch.int64, device=on)
        for function in (torch.linspace, torch.logspace)
    ],
    "lerp away from infinity": lambda on: [
        torch.lerp(torch.ones(1, device=on), torch.tensor([_INF]).to(on), weight)
        for weight in (-1.0, -0.5, -0.4, 0.4, 0.5)
    ],
    "a sparse tensor times a dense one with more dimensions": lambda on: (
        torch.tensor([0.0, 2.0, 3.0]).to_sparse().to(on) * torch.arange(6.0).reshape(2, 3).to(on)
    ).to_dense(),
    "index_select of a sparse tensor with a negative index": lambda on: (
        torch.eye(4).to_sparse().to(on).index_select(0, torch.tensor([-1, 0]).to(on)).to_dense()
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_on_the_cpu(name: str) -> None:
    expected, actual = CASES[name]("cpu"), CASES[name]("tpu")
    if isinstance(expected, torch.Tensor):
        expected, actual = [expected], [actual]
    for device_result, cpu_result in zip(actual, expected, strict=True):
        torch.testing.assert_close(device_result.cpu(), cpu_result, equal_nan=True)


REFUSED: dict[str, Callable[[str], Any]] = {
    "too many rows": lambda on: torch.sparse.mm(
        torch.eye(4, 5).to_sparse().to(on), torch.ones(7, 2, device=on)
    ),
    "too few rows": lambda on: torch.sparse.mm(
        torch.eye(4, 5).to_sparse().to(on), torch.ones(3, 2, device=on)
    ),
    "another batch": lambda on: torch.bmm(
        torch.ones(2, 3, 4).to_sparse().to(on), torch.ones(2, 8, 3, device=on)
    ),
    "another sum": lambda on: torch.sparse.addmm(
        torch.ones(3, 3, device=on), torch.eye(4, 5).to_sparse().to(on), torch.ones(5, 2, device=on)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sparse_products_of_other_sizes_are_refused(name: str) -> None:
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError):
            REFUSED[name](device)


def test_views_of_nothing_as_another_dtype() -> None:
    function = torch.compile(lambda x: x.view(torch.int32) + 1)
    for shape in ((0, 4), (2, 0, 4)):
        x = torch.empty(shape, dtype=torch.int16)
        assert function(x.to("tpu")).shape == (x.view(torch.int32) + 1).shape


def test_norms_of_embeddings_become_inputs() -> None:
    indices = torch.tensor([0, 2])
    for step in range(12):
        norm = 0.5 + step / 8
        expected = F.embedding(indices, torch.ones(4, 4), max_norm=norm)
        result = F.embedding(indices.to("tpu"), torch.ones(4, 4).to("tpu"), max_norm=norm)
        torch.testing.assert_close(result.cpu(), expected)


@pytest.mark.full
def test_draws_stay_off_the_ends() -> None:
    torch.manual_seed(0)
    assert (torch.empty(1 << 25, device="tpu").exponential_() > 0).all().item()
    gamma = torch._standard_gamma(torch.full((5000,), 1e-3, device="tpu"))
    assert (gamma > 0).all().item()
    for dtype in (torch.float32, torch.float64):
        few = torch.full((5000, 2), 0.01, dtype=dtype, device="tpu")
        drawn = torch._sample_dirichlet(few)
        assert ((drawn > 0) & (drawn < 1)).all().item()


def test_dropout_of_doubles_scales_by_a_double() -> None:
    result = F.dropout(torch.ones(1000, dtype=torch.float64, device="tpu"), 0.1)
    assert result.max().item() == 1 / 0.9
