# SPDX-License-Identifier: Apache-2.0
"""Test that accelerate, with our patches, works on the tpu device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState

from torch_google.tpu import registration


def setup_module() -> None:
    registration.register()


def test_the_default_device_is_torchs() -> None:
    assert PartialState().default_device == torch.device("tpu")


@pytest.fixture(autouse=True)
def _new_state() -> Iterator[None]:
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def test_an_accelerator_trains_there() -> None:
    _train(Accelerator())


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_mixed_precision_trains(precision: str) -> None:
    accelerator = Accelerator(mixed_precision=precision)
    _train(accelerator)
    if precision == "fp16":  # the gradients were scaled
        assert accelerator.scaler is not None
        assert accelerator.scaler.is_enabled()
        assert accelerator.scaler.get_scale() > 1


def _train(accelerator: Accelerator) -> None:
    torch.manual_seed(0)
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
