# SPDX-License-Identifier: Apache-2.0
"""Two small models with data, and the reference: training in one process on the CPU."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional

from tests.distributed.rank import Rank

STEPS = 20
BATCH = 8  # The batch size is a multiple of every number of ranks.
RATE = 1e-2
TOKENS, LENGTH, WIDTH, HEAD = 32, 8, 16, 8
Optimizer = Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]


class Mlp(nn.Module):
    """A multilayer perceptron with eight inputs and four classes."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(functional.gelu(self.up(x)))
        return result


class Attention(nn.Module):
    """Causal attention with two heads of width 8, which tensor parallelism splits across ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: torch.Tensor = self.out(heads.transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        result: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return result


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        result: torch.Tensor = self.tokens(tokens) + self.positions(positions)
        return result


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, TOKENS, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.norm(x))
        return result


def gpt() -> nn.Sequential:
    return nn.Sequential(Embedding(), Block(), Block(), Head())


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


@dataclasses.dataclass(frozen=True)
class Problem:
    """A model and its training data, which is on the CPU and the same on all ranks."""

    new_model: Callable[[], nn.Module]
    inputs: torch.Tensor  # [STEPS, BATCH, ...]
    targets: torch.Tensor
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = cross_entropy

    def model(self) -> nn.Module:
        """Return a new model, always with the same weights."""
        torch.manual_seed(0)
        return self.new_model()

    def batches(self) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        return zip(self.inputs, self.targets, strict=True)

    def train(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        rank: Rank | None = None,
        share: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> list[float]:
        """Train, and return the loss of each step over the whole batch.

        A rank trains on `share(batch)`, by default its part of the batch. These parts must have the
        same size on all ranks.
        """
        if rank is not None:
            share = share or rank.part
        losses = []
        for inputs, targets in self.batches():
            if share is not None:
                inputs, targets = share(inputs), share(targets)
            loss = self.loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach() if rank is None else rank.mean(loss))
        return [float(loss) for loss in losses]

    def alone(self, optimizer: Optimizer | None = None) -> list[float]:
        """Train in one process on the CPU, and return the losses."""
        model = self.model()
        return self.train(model, (optimizer or adam)(model.parameters()))


def adam(parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=RATE)


def sgd(parameters: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=10 * RATE, momentum=0.9)


@functools.cache
def mlp() -> Problem:
    random = torch.Generator().manual_seed(1)
    return Problem(
        Mlp,
        torch.randn(STEPS, BATCH, 8, generator=random),
        torch.randint(4, (STEPS, BATCH), generator=random),
    )


@functools.cache
def language() -> Problem:
    random = torch.Generator().manual_seed(2)
    tokens = torch.randint(TOKENS, (STEPS, BATCH, LENGTH + 1), generator=random)
    return Problem(gpt, tokens[..., :-1].contiguous(), tokens[..., 1:].contiguous())
