# SPDX-License-Identifier: Apache-2.0
"""Two small transformers for handwritten digits: one classifies them, the other generates them.

Each model is an `nn.Sequential` of an embedding, blocks and a head, so that every strategy can
split either model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from examples import digits

BLOCKS = 4
HEADS = 4  # With tensor parallelism, each rank needs at least one head.
WIDTH = 32
TOKENS = digits.BRIGHTEST + 1 + digits.CLASSES  # The tokens are the pixel values, then the labels.


@dataclasses.dataclass(frozen=True)
class Task:
    """A model to train, and its data. Each row of `inputs` and `targets` belongs to one digit."""

    new_model: Callable[[], nn.Sequential]
    inputs: torch.Tensor
    targets: torch.Tensor


def classifier(data: digits.Digits) -> Task:
    """Return the task of classifying a digit. Each row of pixels is a token."""
    return Task(
        lambda: nn.Sequential(_RowEmbedding(), *(Block(False) for _ in range(BLOCKS)), _Classes()),
        data.images.squeeze(1),
        data.labels,
    )


def gpt(data: digits.Digits) -> Task:
    """Return the task of predicting each pixel of a digit from its label and the earlier pixels."""
    pixels = data.images.flatten(1).mul(digits.BRIGHTEST).round().long()
    labels = data.labels[:, None] + digits.BRIGHTEST + 1
    return Task(
        lambda: nn.Sequential(_TokenEmbedding(), *(Block(True) for _ in range(BLOCKS)), _Tokens()),
        torch.cat([labels, pixels[:, :-1]], dim=1),
        pixels,
    )


TASKS = {"digits": classifier, "gpt": gpt}


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


class Block(nn.Module):
    """A pre-norm transformer block, which maps [n, length, WIDTH] to the same shape."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.mix = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        # The number of heads is inferred: with tensor parallelism, a rank has only some of them.
        q, k, v = (
            layer(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        x = x + self.mix(heads.transpose(1, 2).flatten(2))
        result: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return result


class _RowEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(digits.SIDE, WIDTH)
        self.positions = nn.Embedding(digits.SIDE, WIDTH)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.rows(images) + self.positions.weight
        return result


class _TokenEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(digits.PIXELS, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.tokens(tokens) + self.positions.weight
        return result


class _Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, digits.CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.norm(x).mean(1))
        return result


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.out(self.norm(x))
        return result
