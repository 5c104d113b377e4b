# SPDX-License-Identifier: Apache-2.0
"""Test that ignite, with our patches, works on the tpu device."""

from __future__ import annotations

import ignite.distributed as idist
import torch
from ignite.engine import Events, create_supervised_trainer

from torch_google.tpu import registration


def setup_module() -> None:
    registration.register()


def test_the_device_is_torchs() -> None:
    assert idist.device() == torch.device("tpu")


def test_a_trainer_trains_there() -> None:
    torch.manual_seed(0)
    device = idist.device()
    model = idist.auto_model(torch.nn.Linear(2, 1))
    assert {parameter.device.type for parameter in model.parameters()} == {"tpu"}
    inputs = torch.randn(32, 2)
    batch = (inputs, inputs.sum(1, keepdim=True))
    trainer = create_supervised_trainer(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        torch.nn.functional.mse_loss,
        device=device,
    )
    losses: list[float] = []
    trainer.add_event_handler(
        Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output)
    )
    trainer.run([batch] * 20, max_epochs=1)
    assert losses[-1] < losses[0] / 10
