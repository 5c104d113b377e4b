# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from torch_google.tpu import export_stablehlo, load_stablehlo
from torch_google.tpu.interop.stablehlo_program import TensorType


def test_an_exported_module_runs() -> None:
    module = nn.Linear(3, 5)
    program = load_stablehlo(export_stablehlo(module, (torch.ones(2, 3),)))
    assert program.inputs[-1] == TensorType(torch.float32, (2, 3))
    assert program.outputs == [TensorType(torch.float32, (2, 5))]
    x = torch.randn(2, 3)
    weights = [each.to("tpu") for each in module.parameters()]
    for _ in range(2):
        (y,) = program(*weights, x.to("tpu"))
        torch.testing.assert_close(y.cpu(), module(x))


_LOADING = """
import sys, torch
from torch_google.tpu import autoload, load_stablehlo
autoload()
q, r = load_stablehlo(open(sys.argv[1]).read())(torch.tensor([[3.0, 1.0], [4.0, 2.0]]).to("tpu"))
torch.testing.assert_close((q @ r).cpu(), torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
"""


def test_another_process_runs_linear_algebra(tmp_path: Path) -> None:
    text = export_stablehlo(torch.linalg.qr, (torch.ones(2, 2),))
    file = tmp_path / "qr.mlir"
    file.write_text(text, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    program = [sys.executable, "-c", _LOADING, str(file)]
    subprocess.run(program, env=environment, check=True, timeout=240)


def test_dtypes_and_several_results() -> None:
    text = export_stablehlo(
        lambda x, y: (x + 1, y.bool(), x.double()),
        (torch.ones(2, dtype=torch.int64), torch.ones(3)),
    )
    program = load_stablehlo(text)
    x, y = torch.arange(2), torch.tensor([0.0, 1.0, 2.0])
    results = program(x.to("tpu"), y.to("tpu"))
    for result, expected in zip(results, (x + 1, y.bool(), x.double()), strict=True):
        assert result.dtype == expected.dtype
        assert torch.equal(result.cpu(), expected)


def test_inputs_that_do_not_fit() -> None:
    program = load_stablehlo(export_stablehlo(lambda x: x + 1, (torch.ones(2),)))
    with pytest.raises(TypeError, match=r"takes torch.float32 \[2\]; found torch.float32 \[3\]"):
        program(torch.ones(3, device="tpu"))
    with pytest.raises(TypeError, match="are on cpu. Move them to one tpu device"):
        program(torch.ones(2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "the text is not StableHLO"),
        ("module { func.func @f() { return } }", "has no function @main"),
        (
            "module { func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> } }",
            "has the type tensor<.xf32>. Export it with fixed sizes",
        ),
        (
            "module { func.func @main(%a: tensor<2xi4>) -> tensor<2xi4> { return %a : tensor<2xi4> } }",
            "has the type tensor<2xi4>",
        ),
    ],
)
def test_text_that_cannot_be_loaded(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_stablehlo(text)
