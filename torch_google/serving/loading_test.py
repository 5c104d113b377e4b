# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from torch_google.serving import Limits, ServingError, Size, Source, TensorAPI, TensorSpec
from torch_google.serving.loading import buckets, load


class _Pair(nn.Module):
    """A module that returns two named outputs and records the size of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.sizes: list[int] = []

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        self.sizes.append(len(x))
        return {"y": self.linear(x) * scale[:, None], "is_large": scale > 1}


def pair() -> tuple[nn.Module, list[TensorSpec]]:
    torch.manual_seed(0)
    return _Pair(), [TensorSpec.of("x", "float32", (3,)), TensorSpec.of("scale", "float64", ())]


def flat() -> tuple[nn.Module, list[TensorSpec]]:
    return nn.Flatten(0), [TensorSpec.of("x", "float32", (3,))]


_PAIR = f"{__name__}:pair"


def _example(scale: float) -> dict[str, np.ndarray]:
    return {"x": np.full(3, scale, np.float32), "scale": np.array(scale)}


def test_a_module_with_a_checkpoint(tmp_path: Path) -> None:
    module, _ = pair()
    assert isinstance(module, _Pair)
    nn.init.constant_(module.linear.weight, 2.0)
    path = tmp_path / "checkpoint.pt"
    torch.save({"state_dict": module.state_dict()}, path)
    model = load(Source(_PAIR, str(path)), "cpu", 4)
    assert model.warm_up().outputs == ("y", "is_large")
    results = model([_example(scale) for scale in (1.0, 2.0, 3.0, 4.0, 5.0)])
    for scale, result in zip((1.0, 2.0, 3.0, 4.0, 5.0), results, strict=True):
        expected = (2 * 3 * scale + module.linear.bias.detach()) * scale
        np.testing.assert_allclose(result["y"], expected.numpy(), rtol=1e-6)
        assert result["is_large"] == (scale > 1)


def test_a_checkpoint_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save(nn.Linear(1, 1).state_dict(), path)
    with pytest.raises(ServingError, match="does not fit the module: .*linear.weight"):
        load(Source(_PAIR, str(path)), "cpu", 4)
    path.write_text("hello")
    with pytest.raises(ServingError, match="it is no checkpoint that torch.save wrote"):
        load(Source(_PAIR, str(path)), "cpu", 4)
    with pytest.raises(ServingError, match="memory://none/x.pt: cannot be read"):
        load(Source(_PAIR, "memory://none/x.pt"), "cpu", 4)


def test_a_function_that_is_missing() -> None:
    with pytest.raises(ServingError, match="Add the module to the program's deps"):
        load(Source("no.such.module:f"), "cpu", 4)
    with pytest.raises(ServingError, match="has no attribute 'f'"):
        load(Source(f"{__name__}:f"), "cpu", 4)


def test_an_output_without_the_batch() -> None:
    with pytest.raises(ServingError, match=r"has shape \[3\] for a batch of 1"):
        load(Source(f"{__name__}:flat"), "cpu", 4).warm_up()


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_an_exported_program(tmp_path: Path, is_dynamic: bool) -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval()
    shapes = ({0: Dim("batch", max=16)},) if is_dynamic else None
    program = torch.export.export(module, (torch.zeros(4, 3),), dynamic_shapes=shapes)
    path = str(tmp_path / "model.pt2")
    torch.export.save(program, path)
    model = load(Source(path), "cpu", 8)
    signature = model.warm_up()
    assert [str(spec) for spec in signature.inputs] == ["float32 [3]"]
    examples = [{signature.inputs[0].name: np.full(3, i, np.float32)} for i in range(6)]
    for example, result in zip(examples, model(examples), strict=True):
        (x,) = example.values()
        expected = module(torch.from_numpy(x)[None])[0].detach().numpy()
        np.testing.assert_allclose(result["output"], expected, rtol=1e-5, atol=1e-6)


def test_an_exported_program_with_lengths(tmp_path: Path) -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(1)

    shapes = ({0: Dim("batch", max=16), 1: Dim("length", min=2, max=9)},)
    program = torch.export.export(Sum(), (torch.zeros(4, 3),), dynamic_shapes=shapes)
    path = str(tmp_path / "model.pt2")
    torch.export.save(program, path)
    model = load(Source(path), "cpu", 8)
    assert model.warm_up().inputs[0].shape == (Size(2, 9),)
    results = model([{"x": np.ones(length, np.float32)} for length in (2, 5, 2, 9)])
    assert [float(each["output"]) for each in results] == [2, 5, 2, 9]


def test_a_device_without_xla_runs_no_stablehlo() -> None:
    with pytest.raises(ServingError, match="XLA runs StableHLO, and the device cpu"):
        load(Source("model.mlir"), "cpu", 8)


def test_a_device_that_is_missing() -> None:
    with pytest.raises(ServingError, match="the device cuda:7 cannot be used"):
        load(Source(_PAIR), "cuda:7", 8)


def test_the_cpu_runs_all_batch_sizes() -> None:
    assert buckets(torch.device("cpu"), 3) == (1, 2, 3)


def test_the_api_writes_json() -> None:
    api = TensorAPI(Source(_PAIR), Limits(batch=2))
    api.setup("cpu")
    (output,) = api.unbatch(api.predict(api.batch([_example(2.0)])))
    assert b'"is_large":true' in api.encode_response(output)
