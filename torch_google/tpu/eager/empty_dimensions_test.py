# SPDX-License-Identifier: Apache-2.0
"""Indexing a dimension of size 0 raises the same error as on the CPU, or has no effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


def _index(device: str) -> torch.Tensor:
    return torch.zeros(0, 0, device=device)[[0, -1]]


def _assign(device: str) -> torch.Tensor:
    x = torch.zeros(0, 2, device=device)
    x[[0]] = 1.0
    return x


def _accumulate(device: str) -> torch.Tensor:
    x = torch.zeros(0, 2, device=device)
    index = torch.tensor([0], device=device)
    return x.index_put_((index,), torch.ones(2, device=device), accumulate=True)


def _no_indices(device: str) -> torch.Tensor:
    return torch.zeros(0, 2, device=device)[torch.zeros(0, dtype=torch.long, device=device)]


def _other_dimension(device: str) -> torch.Tensor:
    return torch.zeros(2, 0, device=device)[torch.tensor([0], device=device)]


def _index_add(device: str) -> torch.Tensor:
    x, index = torch.zeros(0, 2, device=device), torch.tensor([0], device=device)
    return x.index_add(0, index, torch.ones(1, 2, device=device))


def _gather(device: str) -> torch.Tensor:
    index = torch.zeros(1, 2, dtype=torch.long, device=device)
    return torch.zeros(0, 2, device=device).gather(0, index)


def _take(device: str) -> torch.Tensor:
    return torch.zeros(0, 2, device=device).take(torch.tensor([0], device=device))


def _outcome(function: Callable[[str], torch.Tensor], device: str) -> object:
    try:
        return function(device).cpu().shape
    except (IndexError, RuntimeError) as error:
        return type(error)


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize(
    "function",
    [
        *(_index, _assign, _accumulate, _no_indices, _other_dimension),
        *(_index_add, _gather, _take),
    ],
)
def test_the_outcome_is_that_of_the_cpu(function: Callable[[str], torch.Tensor], mode: str) -> None:
    with torch.tpu.eager_mode(mode):
        outcome = _outcome(function, "tpu")
    assert outcome == _outcome(function, "cpu")
