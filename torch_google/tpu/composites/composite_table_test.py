# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.symbolic_convert import InstructionTranslator


def test_dynamo_does_not_trace_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    run = InstructionTranslator.run

    def recorded(self: InstructionTranslator) -> Any:
        files.append(Path(self.f_code.co_filename))
        return run(self)

    monkeypatch.setattr(InstructionTranslator, "run", recorded)

    def function(indices: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        matrix = torch.sparse_coo_tensor(indices, values, (2, 2))
        return (matrix + matrix).to_dense()

    inputs = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    result = torch.compile(function)(*(tensor.to("tpu") for tensor in inputs))
    assert result.tolist() == [[0, 2], [4, 0]]
    assert Path(__file__) in files
    assert Path(__file__).parent not in {file.parent for file in files if file != Path(__file__)}
