# SPDX-License-Identifier: Apache-2.0
"""Test models on the `tpu` device: a module, an exported program, and StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from torch_google.serving import ServingError, Source, TensorSpec
from torch_google.serving.loading import buckets, load, usable_device
from torch_google.tpu.testing import quick_compiler

quick_compiler.use()


def network() -> tuple[nn.Module, list[TensorSpec]]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh()), [TensorSpec.of("x", "float32", (3,))]


def _check(source: Source, batch: int) -> None:
    model = load(source, "tpu", batch)
    (spec,) = model.warm_up().inputs
    rows = np.random.default_rng(0).random((5, 3), np.float32)
    misses = torch.tpu.metrics().compiles
    results = model([{spec.name: row} for row in rows])
    assert torch.tpu.metrics().compiles == misses  # warm_up has compiled all batch sizes
    expected = network()[0](torch.from_numpy(rows)).detach().numpy()
    np.testing.assert_allclose([each["output"] for each in results], expected, rtol=1e-5)


def _weights(module: nn.Module) -> Sequence[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def test_few_batch_sizes() -> None:
    assert buckets(usable_device("tpu"), 12) == (1, 2, 4, 8, 12)
    assert buckets(usable_device("tpu"), 8) == (1, 2, 4, 8)
    assert buckets(usable_device("tpu"), 1) == (1,)


def test_a_module() -> None:
    _check(Source(f"{__name__}:network"), 4)


def test_an_exported_program(tmp_path: Path) -> None:
    shapes = ({0: Dim("batch", max=16)},)
    program = torch.export.export(network()[0], (torch.zeros(4, 3),), dynamic_shapes=shapes)
    torch.export.save(program, str(tmp_path / "model.pt2"))
    _check(Source(str(tmp_path / "model.pt2")), 4)


def test_stablehlo(tmp_path: Path) -> None:
    from torch_google.tpu import export_stablehlo

    usable_device("tpu")
    module = network()[0]
    (tmp_path / "model.mlir").write_text(export_stablehlo(module, (torch.zeros(4, 3),)))
    torch.save(_weights(module), tmp_path / "weights.pt")
    _check(Source(str(tmp_path / "model.mlir"), str(tmp_path / "weights.pt")), 4)
    torch.save(_weights(module)[:1], tmp_path / "weights.pt")
    with pytest.raises(ServingError, match="differ in dimension 0, the batch"):
        load(Source(str(tmp_path / "model.mlir"), str(tmp_path / "weights.pt")), "tpu", 4)
    torch.save([torch.zeros(7)], tmp_path / "weights.pt")
    with pytest.raises(ServingError, match=r"and the checkpoint has torch.float32 \[7\]"):
        load(Source(str(tmp_path / "model.mlir"), str(tmp_path / "weights.pt")), "tpu", 4)
    (tmp_path / "model.mlir").write_text("module {")
    with pytest.raises(ValueError, match="the text is not StableHLO"):
        load(Source(str(tmp_path / "model.mlir")), "tpu", 4)
