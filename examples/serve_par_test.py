# SPDX-License-Identifier: Apache-2.0
"""Run serve.par as a user would, on the CPU and on the `tpu` device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples import model
from torch_google.serving.testing.server_process import ServerProcess
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_PAR = Path(__file__).with_name("serve.par")
_COMMAND = [str(_PAR)] if _PAR.exists() else [sys.executable, "-m", "examples.serve"]


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> model.DigitNet:
    """Create a network, save its checkpoint in a new working directory, and return the network."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    network = model.DigitNet().eval()
    torch.save({"state_dict": network.state_dict()}, "checkpoint.pt")
    return network


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_it_serves_a_checkpoint(network: model.DigitNet, device: str) -> None:
    image = torch.rand(1, 8, 8)
    command = [*_COMMAND, "--checkpoint=checkpoint.pt", "--port=0", f"--device={device}"]
    env = {**os.environ, "XLA_FLAGS": XLA_FLAGS}
    with ServerProcess([*command, "--batch=2", "--workers=2"], env) as server:
        response = server.post({"inputs": {"image": image.tolist()}})
        assert response.status == 200, response.body
        expected = network(image[None])[0].tolist()
        assert response.body["outputs"]["output"] == pytest.approx(expected, abs=1e-4)
        assert server.post({"inputs": {"image": [1]}}).status == 422
        assert server.end() == 0, server.log()


def test_it_serves_an_exported_program(network: model.DigitNet) -> None:
    program = torch.export.export(network, (torch.zeros(2, 1, 8, 8),))
    torch.export.save(program, "model.pt2")
    with ServerProcess([*_COMMAND, "--model=model.pt2", "--port=0"]) as server:
        (name,) = server.get("/openapi.json").body["paths"]["/predict"]["post"]["requestBody"][
            "content"
        ]["application/json"]["example"]["inputs"]
        image = torch.rand(1, 8, 8)
        response = server.post({"inputs": {name: image.tolist()}})
        expected = network(image[None])[0].tolist()
        assert response.body["outputs"]["output"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "serve: found no --checkpoint. Run train.par first"),
        (["--checkpoint=none.pt"], "none.pt: cannot be read"),
        (["--model=model.onnx"], "'model.onnx' is no model: use a file *.pt2"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, flags: list[str], message: str) -> None:
    result = subprocess.run(
        [*_COMMAND, "--port=0", *flags], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
