# SPDX-License-Identifier: Apache-2.0
"""A small model with Llama's building blocks: RMSNorm, rotary embeddings, SwiGLU and a KV cache."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

Cache = list[tuple[torch.Tensor, torch.Tensor]]

VOCABULARY = 256


class Norm(nn.Module):
    """RMSNorm as a sequence of elementary operators, as in transformers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Layer(nn.Module):
    """A transformer layer: attention with a KV cache, and a gated feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.query, self.key, self.value, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        self.before_attention, self.before_network = Norm(width), Norm(width)

    def forward(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        past: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        batch, length, width = x.shape
        normed = self.before_attention(x)
        query, key, value = (
            layer(normed).view(batch, length, self._heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        query = query * cos + _rotated(query) * sin
        key = key * cos + _rotated(key) * sin
        if past is not None:
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])
        if length > 1:
            mask = torch.full((length, length), float("-inf"), device=x.device).triu(1)
            scores = scores + mask
        mixed = scores.softmax(-1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        normed = self.before_network(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed)), (key, value)


class Llama(nn.Module):
    """A small Llama. `forward` returns the logits and the extended KV cache."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self._size = width // heads
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = Norm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(
        self, tokens: torch.Tensor, past: Cache | None = None
    ) -> tuple[torch.Tensor, Cache]:
        start = past[0][0].shape[2] if past else 0
        positions = torch.arange(
            start, start + tokens.shape[1], device=tokens.device, dtype=torch.float32
        )
        steps = torch.arange(0, self._size, 2, device=tokens.device).float() / self._size
        angles = torch.outer(positions, 1 / 10000**steps)
        angles = torch.cat((angles, angles), -1)
        x, cache = self.embedding(tokens), []
        for index, layer in enumerate(self.layers):
            x, own = layer(x, angles.cos(), angles.sin(), past[index] if past else None)
            cache.append(own)
        return self.head(self.norm(x)), cache


def _rotated(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)
