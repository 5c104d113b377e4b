# SPDX-License-Identifier: Apache-2.0

import math
from typing import Any

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import lowered, to_tensor

aten = torch.ops.aten


def drawn_from(op: torch._ops.OpOverload, *args: Any) -> torch.Tensor:
    return to_tensor(lowered(op, *args)[0])


MANY = torch.zeros(20000)
HALF = torch.zeros(20000, dtype=torch.bfloat16)

# Each case has an operator, its arguments, and the expected mean and standard deviation.
MOMENTS = [
    (aten.normal_functional.default, (MANY, 3.0, 2.0), 3.0, 2.0),
    (aten.normal.Tensor_Tensor, (MANY + 1, MANY + 0.5), 1.0, 0.5),
    (aten.normal.Tensor_float, (MANY + 1, 0.5), 1.0, 0.5),
    (aten.normal.float_Tensor, (1.0, MANY + 0.5), 1.0, 0.5),
    (aten.normal.float_float, (1.0, 0.5, [20000]), 1.0, 0.5),
    (aten.randn.default, ([20000],), 0.0, 1.0),
    (aten.rand.default, ([20000],), 0.5, math.sqrt(1 / 12)),
    (aten.rand_like.default, (HALF,), 0.5, math.sqrt(1 / 12)),
    (aten.uniform.default, (MANY, -1.0, 3.0), 1.0, 4 * math.sqrt(1 / 12)),
    (aten.randint.default, (10, [20000]), 4.5, math.sqrt(99 / 12)),
    (aten.randint.low, (-5, 5, [20000]), -0.5, math.sqrt(99 / 12)),
    (aten.bernoulli.p, (MANY, 0.3), 0.3, math.sqrt(0.21)),
    (aten.bernoulli.default, (MANY + 0.3,), 0.3, math.sqrt(0.21)),
    (aten.exponential.default, (MANY, 2.0), 0.5, 0.5),
    (aten.geometric.default, (MANY, 0.25), 4.0, math.sqrt(12)),
    (aten.log_normal.default, (MANY, 0.0, 0.25), 1.0317, 0.2620),
    (aten.poisson.default, (MANY + 4,), 4.0, 2.0),
    (aten.binomial.default, (MANY + 10, MANY + 0.5), 5.0, math.sqrt(2.5)),
    (aten._standard_gamma.default, (MANY + 4,), 4.0, 2.0),
]


@pytest.mark.parametrize(("op", "args", "mean", "deviation"), MOMENTS, ids=str)
def test_moments(
    op: torch._ops.OpOverload, args: tuple[object, ...], mean: float, deviation: float
) -> None:
    drawn = drawn_from(op, *args).double()
    assert drawn.shape == (20000,)
    assert abs(drawn.mean() - mean) < 5 * deviation / math.sqrt(20000)
    assert abs(drawn.std() - deviation) < 0.05 * deviation


def test_cauchy_has_its_median() -> None:
    drawn = drawn_from(aten.cauchy.default, MANY, 2.0, 0.5).double()
    low, middle, high = drawn.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
    assert abs(middle - 2) < 0.03
    assert abs(high - low - 1) < 0.06


def test_limits() -> None:
    for op, args in ((aten.uniform.default, (HALF, 0.0, 1.0)), (aten.rand_like.default, (HALF,))):
        drawn = drawn_from(op, *args).to(torch.bfloat16)
        assert float(drawn.max()) < 1
        assert float(drawn.min()) >= 0
    assert set(drawn_from(aten.randint.low, 3, 6, [500]).tolist()) == {3, 4, 5}
    assert float(drawn_from(aten.geometric.default, MANY, 0.9).min()) == 1
    eights = drawn_from(aten.random.default, torch.zeros(5000, dtype=torch.int8))
    assert (int(eights.min()), int(eights.max())) == (0, 127)


@pytest.mark.parametrize("limit", [0.0, 1.0, -2.5, 3e-3])
@pytest.mark.parametrize("like", [MANY, HALF, MANY.double(), MANY.to(torch.complex64)])
def test_limits_that_are_one_number_give_it(like: torch.Tensor, limit: float) -> None:
    few = like[:9]
    drawn = drawn_from(aten.uniform.default, few, limit, limit).to(few.dtype)
    assert torch.equal(drawn, few.clone().uniform_(limit, limit))
    above = float(torch.nextafter(torch.tensor(1.0), torch.tensor(2.0)))
    assert drawn_from(aten.uniform.default, MANY[:99], 1.0, above).unique().tolist() == [1.0]


def test_randperm() -> None:
    drawn = drawn_from(aten.randperm.default, 100)
    assert sorted(drawn.tolist()) == list(range(100))
    assert drawn.tolist() != list(range(100))


def test_multinomial() -> None:
    weights = torch.tensor([[0.0, 1.0, 3.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    drawn = drawn_from(aten.multinomial.default, weights, 8000, True)
    assert drawn.shape == (2, 8000)
    assert abs((drawn[0] == 2).double().mean() - 0.75) < 0.03
    assert set(drawn[0].tolist()) == {1, 2}
    once = drawn_from(aten.multinomial.default, weights, 2, False)
    assert sorted(once[0].tolist()) == [1, 2]


def test_dirichlet() -> None:
    drawn = drawn_from(aten._sample_dirichlet.default, torch.ones(50, 3))
    torch.testing.assert_close(drawn.sum(1), torch.ones(50))


def test_uniform_complex_numbers() -> None:
    drawn = drawn_from(aten.uniform.default, torch.zeros(5000, dtype=torch.complex64), 1.0, 3.0)
    for part in (drawn.real, drawn.imag):
        assert 1 <= part.min() < part.max() < 3
        assert abs(float(part.mean()) - 2) < 0.05
    assert abs(float(((drawn.real - 2) * (drawn.imag - 2)).mean())) < 0.05


def test_normal_complex_numbers_have_the_mean_in_both_parts() -> None:
    drawn = drawn_from(aten.normal_functional.default, MANY.to(torch.complex64), -2.0, 3.0)
    assert abs(drawn.mean() - (-2 - 2j)) < 0.1
    assert abs(drawn.std() - 3) < 0.1
