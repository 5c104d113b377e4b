# SPDX-License-Identifier: Apache-2.0
"""Changing view offsets and changing scalars need only a bounded number of programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional


def misses(work: Callable[[int], object], *, after: int, more: int) -> int:
    for step in range(after):
        work(step)
    torch.tpu.reset_metrics()
    for step in range(after, after + more):
        work(step)
    return int(torch.tpu.metrics().misses)


def filled(device: str) -> torch.Tensor:
    rows = torch.arange(120.0, device=device).reshape(40, 3)
    columns = torch.zeros(4, 40, 3, device=device)
    for step in range(40):
        rows[step].mul_(2).add_(rows[-step - 1])
        columns[:, step] = rows[step]
        columns[1, step : step + 1].t().copy_(rows[step : step + 1].t() + step)
        columns[2:4, step, 1:] = torch.sin(rows[step, :2])
        torch.add(rows[step], 1, out=columns[3, step])
    return columns


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_blocks_are_read_and_written_as_on_the_cpu(mode: str) -> None:
    with torch.tpu.eager_mode(mode):
        actual = filled("tpu").cpu()
    torch.testing.assert_close(actual, filled("cpu"))


def test_a_block_that_moves_does_not_compile() -> None:
    data = torch.randn(500, 4, device="tpu")
    weight = torch.randn(4, 2, device="tpu")

    def work(step: int) -> None:
        data[3 * step : 3 * step + 3] += 1
        (data[5 * step : 5 * step + 5] @ weight).relu()
        data[step] = data[2 * step]

    assert misses(work, after=12, more=30) == 0


def test_a_place_that_comes_again_and_again_has_a_program() -> None:
    data = torch.randn(30, 4, device="tpu")

    def epoch(_: int) -> None:
        for step in range(15):
            data[step].exp2()

    assert misses(epoch, after=5, more=3) == 0
    hits = torch.tpu.metrics().hits
    assert hits == torch.tpu.metrics().operators == 45


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("length", [None, 3])
def test_gradients_of_parts_that_move_do_not_compile(mode: str, length: int | None) -> None:
    leaf = torch.linspace(0, 1, 200, device="tpu").reshape(50, 4).requires_grad_()
    reference = leaf.detach().cpu().requires_grad_()

    def gradient(step: int, of: torch.Tensor = leaf) -> torch.Tensor:
        part = (of * 2)[step] if length is None else (of * 2)[step : step + length]
        return torch.autograd.grad((part * part).sum(), of)[0]

    with torch.tpu.eager_mode(mode):
        missed = misses(gradient, after=12, more=30)
        torch.testing.assert_close(gradient(7).cpu(), gradient(7, reference))
    assert missed == 0 or mode == "fused"  # fused mode still compiles a program for each offset


@pytest.mark.full
def test_gradients_flow_through_blocks_that_move() -> None:
    def gradient(device: str) -> torch.Tensor:
        leaf = torch.linspace(0, 1, 60, device=device).reshape(20, 3).requires_grad_()
        doubled = leaf * 2
        total = doubled.new_zeros(3)
        for step in range(20):
            total = total + doubled[step].sin() * doubled[-step - 1]
        total.sum().backward()
        assert leaf.grad is not None
        return leaf.grad.cpu()

    torch.testing.assert_close(gradient("tpu"), gradient("cpu"))


def x() -> torch.Tensor:
    return torch.full((3, 3), 0.5, device="tpu")


NUMBERS: dict[str, Callable[[float], object]] = {
    "addmm": lambda n: torch.addmm(x(), x(), x(), alpha=n, beta=n),
    "baddbmm": lambda n: torch.baddbmm(x()[None], x()[None], x()[None], alpha=n),
    "bernoulli": lambda n: x().bernoulli_(n),
    "cauchy": lambda n: x().cauchy_(n, n),
    "dropout": lambda n: functional.dropout(x(), n),
    "exponential": lambda n: x().exponential_(n),
    "full": lambda n: torch.full((3,), n, device="tpu"),
    "full_like": lambda n: torch.full_like(x(), n),
    "huber": lambda n: functional.huber_loss(x(), x(), delta=n),
    "index_fill": lambda n: x().index_fill(0, torch.tensor([1], device="tpu"), n),
    "layer_norm": lambda n: functional.layer_norm(x(), (3,), eps=n),
    "batch_norm": lambda n: functional.batch_norm(
        x(), x()[0].clone(), x()[0].clone(), training=True, momentum=n
    ),
    "linspace": lambda n: torch.linspace(0, n, 5, device="tpu"),
    "normal": lambda n: x().normal_(n, n),
    "pad": lambda n: functional.pad(x(), (1, 1), value=n),
    "scatter": lambda n: x().scatter(0, torch.tensor([[1]], device="tpu"), n),
    "smooth_l1": lambda n: functional.smooth_l1_loss(x(), x(), beta=n),
    "uniform": lambda n: x().uniform_(0, n),
    "where": lambda n: torch.where(x() > 0, x(), n),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_do_not_compile_forever(name: str) -> None:
    assert misses(lambda step: NUMBERS[name](0.3 + 0.01 * step), after=11, more=10) == 0
