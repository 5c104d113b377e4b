# SPDX-License-Identifier: Apache-2.0

import jax
import pytest
import torch
from torch import nn

import torch_google.tpu
from torch_google.tpu import autoload
from torch_google.tpu.compile import export_stablehlo


def test_a_function() -> None:
    text = export_stablehlo(lambda x, y: x @ y + 1, (torch.ones(2, 3), torch.ones(3, 4)))
    assert "stablehlo.dot_general" in text
    assert "tensor<2x3xf32>" in text
    assert "tensor<2x4xf32>" in text


def test_the_state_of_a_module_is_its_first_inputs() -> None:
    text = export_stablehlo(nn.Linear(3, 5), (torch.ones(2, 3),))
    main = next(line for line in text.splitlines() if "@main" in line)
    assert "%arg0: tensor<5x3xf32>" in main
    assert "%arg1: tensor<5xf32>" in main
    assert "%arg2: tensor<2x3xf32>" in main


def test_an_exported_program_gives_what_its_module_gives() -> None:
    model, args = nn.Sequential(nn.Linear(3, 5), nn.ReLU()), (torch.ones(2, 3),)
    exported = torch.export.export(model, args)
    assert export_stablehlo(exported, args) == export_stablehlo(model, args)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * torch.arange(5, device=x.device)


def test_a_module_of_the_device_is_that_of_the_cpu() -> None:
    autoload()
    model = Positions().eval()
    with jax.enable_x64(False):
        text = torch_google.tpu.export_stablehlo(model, (torch.ones(2, 5),))
    assert "tensor<5xi64>" in text
    model.to("tpu")
    ours = torch_google.tpu.export_stablehlo(model, (torch.ones(2, 5, device="tpu"),))
    assert ours == text


def test_a_module_on_the_device_is_exported_as_one_on_the_cpu() -> None:
    model, x = nn.Linear(3, 5), torch.ones(2, 3)
    text = export_stablehlo(model, (x,))
    assert export_stablehlo(model.to("tpu"), (x.to("tpu"),)) == text


def test_dynamic_dimensions_are_refused() -> None:
    rows = torch.export.Dim("rows", min=2, max=8)
    exported = torch.export.export(
        nn.Linear(3, 5), (torch.ones(4, 3),), dynamic_shapes=({0: rows},)
    )
    with pytest.raises(ValueError, match="the program has dynamic dimensions"):
        export_stablehlo(exported, (torch.ones(4, 3),))
