# SPDX-License-Identifier: Apache-2.0
"""Without ONNX, the names that Python code uses are defined, and exporting raises an error."""

from __future__ import annotations

import io

import pytest
import torch
import torch.onnx


def test_its_enumerations_are_there() -> None:
    assert torch.onnx.OperatorExportTypes.ONNX is not None
    assert torch.onnx.TrainingMode.EVAL is not None
    assert int(torch.onnx.TensorProtoDataType.FLOAT) == 1
    assert int(torch.onnx.TensorProtoDataType.BFLOAT16) == 16


def test_export_says_why_not() -> None:
    with pytest.raises(NotImplementedError, match="no TorchScript exporter to ONNX"):
        torch.onnx.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),), io.BytesIO())


def test_the_graphs_own_export_says_why_not() -> None:
    @torch.jit.script
    def double(x: torch.Tensor) -> torch.Tensor:
        return x + x

    with pytest.raises(NotImplementedError, match="export_onnx: this build"):
        double.graph._export_onnx({}, 17, {}, custom_opsets={})


def test_torchscript_itself_is_whole() -> None:
    """TorchScript still works: omitting the ONNX exporter removed none of its code."""

    @torch.jit.script
    def double(x: torch.Tensor) -> torch.Tensor:
        return x + x

    file = io.BytesIO()
    torch.jit.save(double, file)
    file.seek(0)
    assert torch.jit.load(file)(torch.ones(2)).tolist() == [2, 2]
