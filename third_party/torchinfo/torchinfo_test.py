# SPDX-License-Identifier: Apache-2.0
"""Test that torchinfo, with our patch, works on the tpu device."""

from __future__ import annotations

import torch
import torchinfo

from torch_google.tpu import registration


def setup_module() -> None:
    registration.register()


def _model() -> torch.nn.Module:
    torch.manual_seed(0)  # with some seeds, the ReLU has no gradient
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def test_a_summary_leaves_the_model_on_its_device() -> None:
    model = _model().to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    summary = torchinfo.summary(model, input_size=(3, 4), verbose=0)
    assert summary.summary_list[0].output_size == [3, 2]
    assert summary.total_params == 58
    assert {parameter.device.type for parameter in model.parameters()} == {"tpu"}
    # Check that the optimizer still updates the model's own parameters.
    model(torch.ones(3, 4, device="tpu")).sum().backward()
    before = [parameter.cpu() for parameter in model.parameters()]
    optimizer.step()
    assert not any(map(torch.equal, before, (each.cpu() for each in model.parameters())))


def test_a_model_on_the_cpu_stays_there() -> None:
    model = _model()
    torchinfo.summary(model, input_size=(3, 4), verbose=0)
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
