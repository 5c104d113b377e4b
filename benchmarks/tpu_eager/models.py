# SPDX-License-Identifier: Apache-2.0
"""The models to measure, written with torch.nn, each with inputs and a loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Workload:
    """A model with inputs, targets (class indices) and an optimizer."""

    model: nn.Module
    inputs: torch.Tensor
    targets: torch.Tensor
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]

    def loss(self, model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of `model`, a copy of this workload's model on any device."""
        return functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())


def workload(name: str) -> Workload:
    """Create the workload `name` of WORKLOADS, with deterministic weights and inputs."""
    torch.manual_seed(0)
    return WORKLOADS[name]()


class Mlp(nn.Sequential):
    """An MLP with ReLU, hidden layers of equal width, and ten output classes."""

    def __init__(self, width: int = 256, layers: int = 4) -> None:
        hidden = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        super().__init__(*hidden, nn.Linear(width, 10))


class Block(nn.Module):
    """A pre-norm transformer layer: causal attention, then two linear layers."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.to_heads = nn.Linear(width, 3 * width)
        self.from_heads = nn.Linear(width, width)
        self.before_widening = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.to_heads(self.before_attention(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.from_heads(attention.transpose(1, 2).flatten(2))
        return x + self.narrow(
            functional.gelu(self.widen(self.before_widening(x)), approximate="tanh")
        )


class Gpt(nn.Module):
    """A small GPT that maps tokens (batch, length) to logits (batch, length, vocabulary)."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.word = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.last = nn.LayerNorm(width)
        self.to_words = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.word(tokens) + self.position(positions)
        return self.to_words(self.last(self.blocks(x)))


class BasicBlock(nn.Module):
    """A residual block of two 3x3 convolutions with batch normalization."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide_in, wide_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide_out)
        self.conv2 = nn.Conv2d(wide_out, wide_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide_out)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or wide_in != wide_out:
            conv = nn.Conv2d(wide_in, wide_out, 1, stride, bias=False)
            self.around = nn.Sequential(conv, nn.BatchNorm2d(wide_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.around(x))


class ResNet18(nn.Sequential):
    """A ResNet-18 that maps images (batch, 3, height, width) to logits (batch, 1000)."""

    def __init__(self) -> None:
        stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        widths = [64, 64, 128, 256, 512]
        blocks = [
            block
            for i, (wide_in, wide_out) in enumerate(itertools.pairwise(widths))
            for block in (
                BasicBlock(wide_in, wide_out, 1 if i == 0 else 2),
                BasicBlock(wide_out, wide_out, 1),
            )
        ]
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
        super().__init__(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head)


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def _mlp() -> Workload:
    return Workload(Mlp(), torch.randn(64, 256), torch.randint(10, (64,)), _sgd)


def _tiny_gpt() -> Workload:
    tokens, targets = torch.randint(8, (2, 1, 4))
    return Workload(Gpt(8, 8, 4, 2, 4), tokens, targets, _sgd)


def _gpt() -> Workload:
    tokens, targets = torch.randint(1024, (2, 8, 128))
    return Workload(Gpt(1024, 256, 4, 4, 128), tokens, targets, _adamw)


def _resnet18() -> Workload:
    return Workload(ResNet18(), torch.randn(2, 3, 224, 224), torch.randint(1000, (2,)), _sgd)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "mlp": _mlp,
    "tiny_gpt": _tiny_gpt,
    "gpt": _gpt,
    "resnet18": _resnet18,
}
