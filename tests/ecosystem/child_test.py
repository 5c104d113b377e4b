# SPDX-License-Identifier: Apache-2.0
"""Test that the child process detects and reports differences and failures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_google.tpu import registration

registration.register()

from tests.ecosystem import child  # noqa: E402 - it needs the device
from tests.ecosystem.case import Case, Run  # noqa: E402

_DTYPES = {"cpu": torch.float32, "tpu": torch.float64}


def _outcomes(function: Any, tmp_path: Path, *modes: str) -> list[tuple[str, str]]:
    file = tmp_path / "journal"
    child.run(Case("sample", function), modes, child.Journal(file))
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return [(entry["verdict"], entry["cause"]) for entry in entries if "ends" in entry]


def test_a_model_that_trains_passes_in_every_mode(tmp_path: Path) -> None:
    def trains(run: Run) -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.9))
        return run.train(model, [torch.randn(2, 3)])

    outcomes = _outcomes(trains, tmp_path, "strict", "fused", "compile")
    assert outcomes == [("passed", "")] * 3


def test_a_case_that_compiles_nothing_fails_in_compile_mode(tmp_path: Path) -> None:
    def breaks_the_graph(run: Run) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return torch._dynamo.disable(torch.add)(x, 1)

        return run.compiled(function)(run.put(torch.ones(2)))

    outcomes = _outcomes(breaks_the_graph, tmp_path, "strict", "compile")
    assert outcomes == [("passed", ""), ("failed", "torch.compile compiled no graph")]


@pytest.mark.parametrize(
    ("function", "verdict", "cause"),
    [
        (lambda run: torch.tensor(float(run.device.type == "tpu")), "differs", "Scalars are not"),
        (lambda run: {run.device.type: torch.ones(1)}, "differs", "other results: cpu"),
        (lambda run: torch.ones(1, dtype=_DTYPES[run.device.type]), "differs", "torch.float64"),
        (lambda run: None, "differs", "the case returns no tensor"),
        (lambda run: _raise(run, "tpu"), "failed", "ValueError: not on tpu"),
        (lambda run: _raise(run, "cpu"), "broken", "ValueError: not on cpu"),
    ],
)
def test_faults(function: Any, verdict: str, cause: str, tmp_path: Path) -> None:
    ((found, text),) = _outcomes(function, tmp_path, "strict")
    assert found == verdict
    assert cause in text


def _raise(run: Run, device: str) -> torch.Tensor:
    if run.device.type == device:
        raise ValueError(f"not on {device}")
    return torch.ones(1)
