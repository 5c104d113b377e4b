# SPDX-License-Identifier: Apache-2.0
"""Tests safetensors' own functions with `device="tpu"`."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.safetensors"
    tensors = {"a": torch.arange(6.0).reshape(3, 2), "b": torch.ones(2, dtype=torch.bfloat16)}
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    return path


@pytest.mark.parametrize("device", ["tpu", "tpu:0"])
def test_load_file(file: Path, device: str) -> None:
    tensors = safetensors.torch.load_file(file, device=device)
    assert {tensor.device for tensor in tensors.values()} == {torch.device("tpu:0")}
    expected = safetensors.torch.load_file(file)
    for name, tensor in expected.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name].cpu(), tensor)


def test_safe_open(file: Path) -> None:
    with safetensors.safe_open(file, framework="pt", device=torch.device("tpu", 0)) as opened:
        assert isinstance(opened, safetensors.safe_open)
        assert sorted(opened.keys()) == ["a", "b"]
        assert opened.metadata() == {"format": "pt"}
        part = opened.get_slice("a")
        assert part.get_shape() == [3, 2]
        assert part[1:].device.type == opened.get_tensor("b").device.type == "tpu"
        assert part[1:].tolist() == [[2, 3], [4, 5]]


def test_other_devices_are_the_librarys(file: Path) -> None:
    with safetensors.safe_open(file, framework="pt") as opened:
        assert isinstance(opened, safetensors.safe_open)
        assert opened.get_tensor("a").device.type == "cpu"
    with pytest.raises(Exception, match="(?i)device"):
        safetensors.safe_open(file, framework="pt", device="abacus")


def test_a_model(tmp_path: Path) -> None:
    model, other = (torch.nn.Linear(2, 3, device="tpu") for _ in range(2))
    safetensors.torch.save_model(model, str(tmp_path / "m.safetensors"))
    safetensors.torch.load_model(other, tmp_path / "m.safetensors", device="tpu")
    assert torch.equal(other.weight, model.weight)
