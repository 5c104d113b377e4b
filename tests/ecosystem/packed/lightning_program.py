# SPDX-License-Identifier: Apache-2.0
"""Train a small model with Lightning, and print its losses.

    lightning_program STRATEGY ACCELERATOR      STRATEGY: single, ddp, model_parallel or fabric

With `ddp` and `model_parallel` (FSDP2), Lightning itself starts the second process, by running this
program again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard

_EPOCHS = 3


class Regression(lightning.LightningModule):
    """A small MLP. `losses` contains the mean loss of each step over all processes."""

    def __init__(self, *, shards: bool = False) -> None:
        super().__init__()
        self.model = model()
        self.shards = shards
        self.losses: list[float] = []

    def configure_model(self) -> None:
        if self.shards:
            mesh = self.device_mesh["data_parallel"]
            for layer in (*self.model, self.model):
                if list(layer.parameters()):
                    fully_shard(layer, mesh=mesh)

    def training_step(self, batch: Any) -> torch.Tensor:
        loss = loss_of(self.model, batch)
        total = self.all_gather(loss.detach()).mean()
        self.losses.append(float(total))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 0.05)


def model() -> torch.nn.Sequential:
    """Return the model with its initial weights, which are the same in each process."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def loss_of(module: torch.nn.Module, batch: Any) -> torch.Tensor:
    """Return the mean squared error of a batch."""
    return torch.nn.functional.mse_loss(module(batch[0]), batch[1])


def batches() -> torch.utils.data.DataLoader[Any]:
    """Return 4 batches of 4 samples."""
    torch.manual_seed(1)
    inputs = torch.randn(16, 4)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, batch_size=4)


def train(strategy: str, accelerator: str) -> tuple[str, list[float]]:
    """Train with Lightning's Trainer. Return the device's type and the losses."""
    parallel = strategy != "single"
    module = Regression(shards=strategy == "model_parallel")
    trainer = lightning.Trainer(
        accelerator=accelerator,
        devices=2 if parallel else 1,
        strategy={
            "single": "auto",
            "ddp": "ddp",
            "model_parallel": ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1),
        }[strategy],
        max_epochs=_EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, batches())
    return trainer.strategy.root_device.type, module.losses if trainer.is_global_zero else []


def train_with_fabric(accelerator: str) -> tuple[str, list[float]]:
    """Train with Lightning's Fabric. Return the device's type and the losses."""
    fabric = lightning.Fabric(accelerator=accelerator, devices=1)
    fabric.launch()
    module: Any = model()
    optimizer: Any = torch.optim.AdamW(module.parameters(), 0.05)
    module, optimizer = fabric.setup(module, optimizer)
    losses = []
    for _ in range(_EPOCHS):
        for batch in fabric.setup_dataloaders(batches()):
            optimizer.zero_grad()
            loss = loss_of(module, batch)
            fabric.backward(loss)
            optimizer.step()
            losses.append(float(loss))
    return fabric.device.type, losses


if __name__ == "__main__":
    _strategy, _accelerator = sys.argv[1:]
    if _strategy == "fabric":
        _device, _losses = train_with_fabric(_accelerator)
    else:
        _device, _losses = train(_strategy, _accelerator)
    if _losses:
        print(json.dumps({"device": _device, "losses": _losses}))
