# SPDX-License-Identifier: Apache-2.0
"""Operators with Python scalar arguments need few programs, even for many different values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from torch_google.tpu import _C
from torch_google.tpu.release import V2_6

VALUES = [0.5 + number / 8 for number in range(24)]
# After this many values, a scalar is a program input. A new value then needs a new program only if
# its Python type is new.
FEW = 12
MODES = ["strict", "debug", "fused"]

# Each function takes a matrix and a scalar.
AT_ONCE: dict[str, Callable[[Tensor, Any], Any]] = {
    "sum": lambda x, n: x + n - n * x,
    "quotient": lambda x, n: n / x + x / n,
    "remainder": lambda x, n: x % n,
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "addcdiv_": lambda x, n: x.clone().addcdiv_(x, x, value=n),
    "lerp": lambda x, n: torch.lerp(x, x * 2, n),
    "clamp": lambda x, n: x.clamp(n / 2, n),
    "comparison": lambda x, n: (x > n) | (x == n),
    "fill_": lambda x, n: x.clone().fill_(n),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "leaky_relu": lambda x, n: functional.leaky_relu(x - 1, n),
    "elu": lambda x, n: functional.elu(x - 1, n),
    "softplus": lambda x, n: functional.softplus(x, n),
    "foreach": lambda x, n: torch._foreach_add(torch._foreach_mul([x, x], n), [x, x], alpha=n),
    "foreach list": lambda x, n: torch._foreach_addcdiv([x, x], [x, x], [x, x], [n, n + 1]),
    "clip_grad_norm_": lambda x, n: torch.nn.utils.clip_grad_norm_([x.clone()], n),
    "rms_norm": lambda x, n: functional.rms_norm(x, (3,), eps=n),
    # 2-D inputs use the unfused implementation in every release.
    "scaled_dot_product_attention": lambda x, n: functional.scaled_dot_product_attention(
        x, x, x, scale=n
    ),
}
IN_THE_END: dict[str, Callable[[Tensor, Any], Any]] = {
    "pow": lambda x, n: (x**n, n**x),
    "floor_divide": lambda x, n: x // n,
    "where": lambda x, n: torch.where(x > 1, x, n),
    "full": lambda x, n: (torch.full((3,), n, device=x.device), torch.full_like(x, n)),
    "assignment": lambda x, n: x.clone().__setitem__(0, n),
    "addmm": lambda x, n: torch.addmm(x, x, x, beta=n, alpha=n + 1),
    "baddbmm": lambda x, n: torch.baddbmm(x[None], x[None], x[None], alpha=n),
    "layer_norm": lambda x, n: functional.layer_norm(x, (3,), eps=n),
    "group_norm": lambda x, n: functional.group_norm(x, 3, eps=n),
    "batch_norm": lambda x, n: functional.batch_norm(x, None, None, training=True, eps=n),
    "huber_loss": lambda x, n: functional.huber_loss(x, x * 2, delta=n),
    "smooth_l1_loss": lambda x, n: functional.smooth_l1_loss(x, x * 2, beta=n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0, 2], device=x.device), n),
    "scatter": lambda x, n: x.scatter(0, torch.zeros(1, 3, dtype=torch.int64, device=x.device), n),
    "pad": lambda x, n: functional.pad(x, (1, 2), value=n),
}


def check(work: Callable[[Tensor, Any], Any], values: list[float]) -> None:
    host = torch.arange(1.0, 10.0).reshape(3, 3) / 4
    x = host.to("tpu")
    for value in values:
        actual, expected = work(x, value), work(host, value)
        torch.testing.assert_close(actual, expected, check_device=False, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_most_numbers_are_inputs_from_the_first(mode: Any) -> None:
    with torch.tpu.eager_mode(mode):
        for work in AT_ONCE.values():
            check(work, VALUES[:2])
        torch.tpu.reset_metrics()
        for name, work in AT_ONCE.items():
            check(work, VALUES[2:6])
            assert torch.tpu.metrics().misses == 0, name


@pytest.mark.parametrize("name", IN_THE_END)
def test_the_others_are_inputs_once_there_are_many(name: str) -> None:
    check(IN_THE_END[name], VALUES[:FEW])
    torch.tpu.reset_metrics()
    check(IN_THE_END[name], VALUES[FEW:])
    assert torch.tpu.metrics().misses == 0


def test_so_are_those_of_random_operators() -> None:
    x = torch.ones(2000, device="tpu")

    def draw(value: float) -> None:
        uniform = x.clone().uniform_(0, value)
        assert 0 <= uniform.min().item() <= uniform.max().item() < value
        assert abs(x.clone().normal_(value, value / 8).mean().item() - value) < value / 16
        result = functional.dropout(x, value / 8)
        assert abs((result == 0).sum().item() / 2000 - value / 8) < 0.05
        torch.testing.assert_close(result.max().item(), 1 / (1 - value / 8), rtol=1e-4, atol=1e-4)
        assert abs(x.clone().bernoulli_(value / 8).mean().item() - value / 8) < 0.05

    for value in VALUES[:FEW]:
        draw(value)
    torch.tpu.reset_metrics()
    for value in VALUES[FEW:]:
        draw(value)
    assert torch.tpu.metrics().misses == 0


@pytest.mark.full
def test_a_compiled_function_has_one_program_for_all_numbers() -> None:
    torch._dynamo.reset()

    @torch.compile
    def work(x: Tensor, n: float) -> Tensor:
        return torch.where(x > n, x * n, x + n)

    check(work, VALUES[:3])
    torch.tpu.reset_metrics()
    check(work, VALUES[3:])
    done = torch.tpu.metrics()
    assert (done.compiles, done.graphs) == (0, {"call": len(VALUES) - 3})


# Values unlike those with which the scalar became a program input: other types, infinities, NaN,
# and very large or small numbers.
ODD: list[Any] = [3, -2, 0, -0.0, float("nan"), float("inf"), -float("inf"), True, 1e30, 1e-30]
HUGE: list[Any] = [2**31, 2**40, -(2**40), 2**62]
KINDS: dict[str, Callable[[Tensor, Any], Any]] = {
    "sum": lambda x, n: x + n,
    "product": lambda x, n: x * n,
    "floor_divide": lambda x, n: x // (n or 1),
    "comparison": lambda x, n: (x > n, x == n),
    "where": lambda x, n: torch.where(x > 1, x, n),
    "full": lambda x, n: torch.full((2,), n, device=x.device),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_number_that_is_an_input_may_become_of_another_kind(name: str) -> None:
    for host in (torch.tensor([0.5, 1.5, -2.0]), torch.tensor([1, 2**40, -3])):
        x = host.to("tpu")
        usual: list[Any] = VALUES[:FEW] if host.is_floating_point() else list(range(1, FEW))
        for value in (*usual, *ODD, *HUGE, *usual[:1]):
            actual, expected = KINDS[name](x, value), KINDS[name](host, value)
            torch.testing.assert_close(actual, expected, check_device=False, equal_nan=True)


_HUGE = 2**64 - 1


@pytest.mark.skipif(V2_6, reason="v2.6 has no number above the largest signed one")
@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.full((2,), _HUGE, dtype=torch.uint64, device=device),
        lambda device: torch.zeros(2, dtype=torch.uint64, device=device).fill_(_HUGE),
        lambda device: torch.full((2,), _HUGE, dtype=torch.float32, device=device),
        lambda device: torch.ones(2, device=device) + _HUGE,
        lambda device: torch.tensor([_HUGE, 1], dtype=torch.uint64, device=device) == _HUGE,
    ],
)
def test_integers_that_only_an_unsigned_type_has(make: Any) -> None:
    assert torch.equal(make("tpu").cpu(), make("cpu"))


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_a_tensor_of_the_cpu_of_an_unsigned_type(mode: Any) -> None:
    x = torch.tensor([5, 7], dtype=torch.uint64).to("tpu")
    others = torch.ones(2, dtype=torch.int64).to("tpu")
    with torch.tpu.eager_mode(mode):
        for number in (5, 7):
            equal = x == torch.tensor(number, dtype=torch.uint64)
            sums = others + 7
            assert (equal.tolist(), sums.tolist()) == ([number == 5, number == 7], [8, 8])


def test_a_program_has_the_complex_number_of_its_call(tmp_path: Path) -> None:
    x = torch.ones(3, dtype=torch.complex64).to("tpu")
    number = torch.tensor(2j)

    def computed() -> torch.Tensor:
        return (x * number).exp().sin().cos().tan()

    expected = (torch.ones(3) * number).exp().sin().cos().tan()
    torch.tpu.set_compile_cache(tmp_path)
    try:
        computed()  # this run stores each operator's program in the cache
        _C.clear_programs()
        with torch.tpu.eager_mode("fused"):
            actual = computed()
            number.zero_()
            torch.testing.assert_close(actual.cpu(), expected)
            torch.tpu.wait_for_compiles()
            number.fill_(2j)
            torch.testing.assert_close(computed().cpu(), expected)
    finally:
        torch.tpu.set_compile_cache(None)
