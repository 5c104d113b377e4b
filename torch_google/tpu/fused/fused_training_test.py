# SPDX-License-Identifier: Apache-2.0
"""Training in fused mode gives the same losses as on the CPU, with one program for all steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def _fused() -> Iterator[None]:
    with torch.tpu.eager_mode("fused"):
        yield


class Block(nn.Module):
    """A transformer block without dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (2, 8)).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.block = Block()
        self.head = nn.Linear(16, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.tokens(x)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(4),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Any, Any]]]] = {
    "mlp": (mlp, lambda: (torch.randn(8, 16), torch.randint(4, (8,)))),
    "gpt": (GPT, lambda: (torch.randint(11, (2, 6)), torch.randint(11, (2, 6)))),
    "convolutions": (convolutions, lambda: (torch.randn(4, 1, 8, 8), torch.randint(4, (4,)))),
}


def train(name: str, device: str, steps: int) -> list[float]:
    torch.manual_seed(0)
    make, batch = MODELS[name]
    x, target = batch()
    model = make()
    model(x)  # running on the CPU first initializes lazy layers and running statistics
    model.to(device)
    x, target = x.to(device), target.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(steps):
        if step == 2 and device == "tpu":
            torch.tpu.wait_for_compiles()
            torch.tpu.reset_metrics()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_training_is_as_on_the_cpu(name: str) -> None:
    losses = train(name, "tpu", 6)
    done = torch.tpu.metrics()
    assert losses == pytest.approx(train(name, "cpu", 6), abs=2e-4)
    assert (done.misses, done.compiles, done.fused_misses, done.fused_served) == (0, 0, 0, 0)
    assert done.flushes["optimizer step"] == done.fused_hits == 4


def test_a_hundred_steps_are_one_program() -> None:
    train("mlp", "tpu", 100)
    done = torch.tpu.metrics()
    assert (done.misses, done.compiles, done.fused_misses, done.fused_served) == (0, 0, 0, 0)
    assert done.flushes == {"optimizer step": 98}
