# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable

import pytest
import torch

from tests.conformance import distribution

Sampler = Callable[[torch.Generator], torch.Tensor]


def draws(sampler: Sampler, offset: int) -> list[torch.Tensor]:
    seeds = range(offset, offset + distribution.RUNS)
    return [sampler(torch.Generator().manual_seed(seed)) for seed in seeds]


SAMPLERS: dict[str, Sampler] = {
    "normal": lambda g: torch.randn(3, 4, generator=g),
    "uniform": lambda g: torch.rand(20, generator=g),
    "coin": lambda g: torch.bernoulli(torch.full((8,), 0.5), generator=g),
    "scaled": lambda g: torch.randn(6, generator=g) * 2,
    "moved": lambda g: torch.randn(3, 4, generator=g) + 1,
    "permutation": lambda g: torch.randperm(12, generator=g),
    "complex": lambda g: torch.randn(5, dtype=torch.complex64, generator=g),
    "constant": lambda g: torch.full((6,), 2.0),
    "nothing": lambda g: torch.zeros(0, 3),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_one_distribution(name: str) -> None:
    sampler = SAMPLERS[name]
    assert not distribution.differs(draws(sampler, 1000), draws(sampler, 0))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (lambda g: torch.randn(12, generator=g) + 1, lambda g: torch.randn(12, generator=g)),
        (lambda g: torch.randn(64, generator=g) * 3, lambda g: torch.randn(64, generator=g)),
        (lambda g: torch.zeros(12), lambda g: torch.randn(12, generator=g)),
        (lambda g: torch.rand(12, generator=g), lambda g: torch.full((12,), 0.5)),
        (lambda g: torch.full((6,), 1.0), lambda g: torch.full((6,), 2.0)),
        (lambda g: torch.arange(12), lambda g: torch.randperm(12, generator=g)),
    ],
    ids=["moved", "wider", "constant", "not constant", "other constant", "not permuted"],
)
def test_two_distributions(actual: Sampler, expected: Sampler) -> None:
    assert distribution.differs(draws(actual, 1000), draws(expected, 0))


def test_roundings_of_one_constant() -> None:
    actual = [torch.tensor([-0.50687373, 1e-42]) for _ in range(distribution.RUNS)]
    expected = [torch.tensor([-0.50687379, 0.0]) for _ in range(distribution.RUNS)]
    assert not distribution.differs(actual, expected)
