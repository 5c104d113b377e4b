# SPDX-License-Identifier: Apache-2.0
"""Language models for `python -m torch_google.tpu.estimate`, which never runs them.

The models have the architectures of GPT-2 and Llama 2. They are on the `meta` device, so
their weights use no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Step = tuple[nn.Module, Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def gpt2(batch: int = 8, length: int = 1024, layers: int = 12, heads: int = 12) -> Step:
    """Return a training step of GPT-2 small, which by default has 124 million parameters."""
    return _step(Gpt2(50257, 768, layers, heads, length), 50257, batch, length)


def llama(
    batch: int = 1,
    length: int = 2048,
    layers: int = 32,
    width: int = 4096,
    heads: int = 32,
    inner: int = 11008,
    vocabulary: int = 32000,
    dtype: str = "bfloat16",
) -> Step:
    """Return a training step of a Llama 2 model, which by default has 6.7 billion parameters."""
    model = Llama(vocabulary, width, layers, heads, inner).to(getattr(torch, dtype))
    return _step(model, vocabulary, batch, length)


class Gpt2Block(nn.Module):
    """A layer of GPT-2: causal attention and an MLP, each with a preceding norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.c_attn(self.ln_1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.c_out(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2. The output layer shares the embedding's weights."""

    def __init__(self, words: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Gpt2Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight)


class LlamaBlock(nn.Module):
    """A layer of Llama: attention with rotary embeddings, and a SwiGLU MLP."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        y = self.attention_norm(x)
        projected = (
            layer(y).unflatten(-1, (self.heads, -1)) for layer in (self.wq, self.wk, self.wv)
        )
        q, k, v = (part.transpose(1, 2) for part in projected)
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).flatten(2))
        y = self.ffn_norm(x)
        return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """A model with Llama 2's architecture."""

    def __init__(self, words: int, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.head_dim = width // heads
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.output = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        pairs = torch.arange(0, self.head_dim, 2, device=tokens.device, dtype=torch.float32)
        angles = torch.outer(places, 10000.0 ** (-pairs / self.head_dim))
        x = self.tok_embeddings(tokens)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.output(self.norm(x))


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _step(model: nn.Module, words: int, batch: int, length: int) -> Step:
    tokens = torch.zeros(batch, length, dtype=torch.long)
    targets = torch.zeros(batch, length, dtype=torch.long)

    def loss(x: torch.Tensor, y: torch.Tensor) -> Any:
        return functional.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return model, loss, (tokens, targets)
