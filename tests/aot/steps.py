# SPDX-License-Identifier: Apache-2.0
"""Training steps of whole models.

Each is one program, compiled with `compile_step`, except those of `_changing_lengths`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from benchmarks.size_streams.model import VOCABULARY, Llama
from benchmarks.tpu_eager.models import Gpt, ResNet18
from examples.model import DigitNet
from torch_google.tpu import compile_step


def _step(
    model: nn.Module,
    inputs: torch.Tensor,
    targets: torch.Tensor,
    optimizer: Callable[..., torch.optim.Optimizer],
) -> None:
    """Run two steps on the device, because only the second one starts with optimizer state."""
    model = model.to("tpu")

    def loss(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())

    step = compile_step(loss, optimizer(model.parameters(), lr=1e-3))
    for _ in range(2):
        step(inputs.to("tpu"), targets.to("tpu"))


def _digits() -> None:
    _step(DigitNet(), torch.rand(32, 1, 8, 8), torch.randint(10, (32,)), torch.optim.Adam)


def _gpt(heads: int) -> None:
    tokens, targets = torch.randint(1024, (2, 8, 128))
    _step(Gpt(1024, 256, 2, heads, 128), tokens, targets, torch.optim.AdamW)


def _resnet() -> None:
    images, targets = torch.randn(2, 3, 224, 224), torch.randint(1000, (2,))
    _step(ResNet18(), images, targets, torch.optim.SGD)


def _changing_lengths() -> None:
    """Train in strict mode on sequences of seven lengths.

    The first four lengths have programs of their own. The others share programs on padded arrays:
    those up to 32 tokens, and those up to 64.
    """
    torch.tpu.set_size_buckets(True)
    try:
        model = Llama(width=32, heads=2, layers=1).to("tpu")
        for length in (14, 15, 16, 17, 20, 25, 50):
            tokens = (torch.arange(length) % VOCABULARY)[None].to("tpu")
            logits, _ = model(tokens)
            loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            loss.backward()
            loss.item()  # ends a round: see torch_google/tpu/eager/size_patterns.py
    finally:
        torch.tpu.set_size_buckets(None)


STEPS: dict[str, Callable[[], None]] = {
    "digits": _digits,
    "gpt head_dim 64": lambda: _gpt(4),
    "gpt head_dim 128": lambda: _gpt(2),
    "resnet18": _resnet,
    "changing lengths": _changing_lengths,
}
