# SPDX-License-Identifier: Apache-2.0
"""In every mode, a hundred identical training steps compile nothing after the second step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from torch_google.tpu.compile import compile_step
from torch_google.tpu.release import V2_6

STEPS = 100


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class GPT(nn.Module):
    """A transformer with one block and no dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return self.head(self.block(self.tokens(x), src_mask=mask, is_causal=True))


class LSTM(nn.Module):
    """A recurrent layer with a head that reads the layer's last state."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(4, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def convolutions() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3)),
        *(nn.Flatten(), nn.Linear(36, 4)),
    )


Batch = tuple[torch.Tensor, torch.Tensor]
Optimizer = Callable[[Any], torch.optim.Optimizer]
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Batch], Optimizer]] = {
    "mlp": (
        mlp,
        lambda: (torch.randn(8, 8), torch.randint(4, (8,))),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    ),
    "convolutions": (
        convolutions,
        lambda: (torch.randn(4, 1, 8, 8), torch.randint(4, (4,))),
        lambda p: torch.optim.Adam(p, lr=1e-2),
    ),
    "gpt-foreach": (
        GPT,
        lambda: (torch.randint(11, (2, 6)), torch.randint(11, (2, 6))),
        lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    ),
    "gpt-fused": (
        GPT,
        lambda: (torch.randint(11, (2, 6)), torch.randint(11, (2, 6))),
        lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    ),
    "lstm": (
        LSTM,
        lambda: (torch.randn(3, 5, 4), torch.randint(4, (3,))),
        lambda p: torch.optim.RMSprop(p, lr=1e-2),
    ),
}


def train(name: str, device: str, execution: str, steps: int) -> list[float]:
    """Train a model and return the losses. Metrics are reset after the second step."""
    torch.manual_seed(0)
    make, batch, optimizer_of = CASES[name]
    model = make().to(device)
    inputs, targets = (part.to(device) for part in batch())
    optimizer = optimizer_of(model.parameters())
    called = torch.compile(model) if execution == "compile" else model

    def loss_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(called(inputs).flatten(0, -2), targets.flatten())

    def one_by_one(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(inputs, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = compile_step(loss_of, optimizer) if execution == "compile_step" else one_by_one
    losses = []
    for number in range(steps):
        if number == 2 and device == "tpu":
            torch.tpu.wait_for_compiles()
            torch.tpu.reset_metrics()
        losses.append(step(inputs, targets).item())
    return losses


HOW = ["strict", "debug", "fused", "compile", "compile_step"]
if V2_6:  # in v2.6, Dynamo cannot trace backward
    HOW.remove("compile_step")


@pytest.mark.parametrize("execution", HOW)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_compiled_after_the_second_step(name: str, execution: str) -> None:
    mode: Any = execution if execution in ("strict", "debug", "fused") else "strict"
    # Without this option, Dynamo does not compile recurrent networks.
    with torch.tpu.eager_mode(mode), torch._dynamo.config.patch(allow_rnn=True):
        losses = train(name, "tpu", execution, STEPS)
    done = torch.tpu.metrics()
    assert (done.misses, done.compiles, done.fused_misses, done.fused_served) == (0, 0, 0, 0)
    assert (done.host_shapes, done.fallbacks, done.disk_misses) == (0, {}, 0)
    if execution == "fused":
        assert done.flushes == {"optimizer step": STEPS - 2}
        assert done.fused_hits == STEPS - 2
    graphs = {"compile": 2, "compile_step": 1}.get(execution, 0)
    assert done.graphs == ({"call": graphs * (STEPS - 2)} if graphs else {})
    assert losses[-1] < losses[0] / 2
    if name != "convolutions":  # its random numbers differ from those on the CPU
        assert losses[:5] == pytest.approx(train(name, "cpu", "strict", 5), abs=1e-4)
