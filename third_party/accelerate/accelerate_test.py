# SPDX-License-Identifier: Apache-2.0
"""Test that accelerate, with our patches, works on the tpu device."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.state import PartialState

from torch_google.tpu import registration


def setup_module() -> None:
    registration.register()


def test_the_default_device_is_torchs() -> None:
    assert PartialState().default_device == torch.device("tpu")


def test_an_accelerator_trains_there() -> None:
    torch.manual_seed(0)
    accelerator = Accelerator()
    assert accelerator.device == torch.device("tpu")
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs = torch.randn(160, 2)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(data, batch_size=8)
    )
    assert {parameter.device.type for parameter in model.parameters()} == {"tpu"}
    losses: list[float] = []
    for batch, target in loader:
        assert batch.device.type == "tpu"
        loss = torch.nn.functional.mse_loss(model(batch), target)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
