# SPDX-License-Identifier: Apache-2.0
"""Tests estimates that use the TPU compiler. Run by hand, because the libtpu wheel is large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import pytest
import torch
from torch import nn

from torch_google.tpu import cache
from torch_google.tpu.estimate import Report, estimate
from torch_google.tpu.estimate.attention_test import Attention
from torch_google.tpu.runtime.topology import topology


def _estimate(width: int, batch: int, **options: Any) -> Report:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        x = torch.empty(batch, width)
    return estimate(model, (x,), **options)


def test_one_chip() -> None:
    report = _estimate(1024, 1024, topology="v5e")
    assert report.fits
    assert report.parameters == 2 * (1024 * 1024 + 1024)
    assert report.model_flops == 2 * 2 * 1024**3
    assert abs(report.flops / report.model_flops - 1) < 0.05
    assert any(cost.cycles for cost in report.costs)
    assert {b.name for b in report.buffers} >= {"0.weight", "2.weight", "input 0"}


@pytest.mark.parametrize("causal", [False, True])
def test_kernels_of_attention_are_counted(causal: bool) -> None:
    with torch.device("meta"):
        model = Attention(128, causal)
        inputs = [torch.empty(1, heads, 512, 128) for heads in (4, 2, 2)]
    report = estimate(model, inputs, loss=lambda *x: model(*x).sum())
    attention = sum(c.flops for c in report.costs if "attention" in c.op)
    assert attention == 7 * 2 * 4 * 512 * 512 * 128
    assert report.flops == pytest.approx(attention, rel=0.01)


def test_a_mesh_divides_arguments_and_communicates() -> None:
    one = _estimate(1024, 1024, topology="v5e")
    four = _estimate(1024, 1024, topology="v5e:2x2", mesh={"data": 4})
    assert four.arguments < 0.3 * one.arguments
    assert four.collectives


def test_a_sharded_product_counts_all_iterations_of_its_loops() -> None:
    # With this mesh, the compiler turns the matmuls into loops over slices of the weights.
    report = _estimate(4096, 16384, topology="v5e:4x4", mesh={"data": 4, "model": 4})
    assert report.model_flops == 2 * 2 * 16384 * 4096**2
    assert sum(cost.flops for cost in report.costs) == pytest.approx(report.model_flops / 16)
    assert report.flops == pytest.approx(report.model_flops / 16, rel=0.05)
    assert all(each.sent for each in report.collectives)


def test_too_large() -> None:
    report = _estimate(1 << 16, 1 << 10, topology="v5e")
    assert not report.fits
    assert report.verdict.startswith("does not fit by")


@pytest.mark.parametrize(("name", "mesh"), [("v5e", None), ("v5e:2x2", {"data": 4})])
def test_the_program_is_found_in_the_cache(
    name: str, mesh: dict[str, int] | None, tmp_path: Path
) -> None:
    before = torch.tpu.get_compile_cache()
    torch.tpu.set_compile_cache(tmp_path)
    stored: list[tuple[str, Any]] = []
    try:
        with patch.object(cache, "store_entry", _recorded(stored)):
            assert _estimate(256, 64, topology=name, mesh=mesh, fill_cache=True).fits
        ((fingerprint, precision),) = stored
        with jax.default_matmul_precision(precision):
            devices = topology(name).devices[: 1 if mesh is None else 4]
            entry = cache.find_entry(fingerprint, devices)
    finally:
        torch.tpu.set_compile_cache(before)
    assert entry is not None
    assert entry.has_executable
    assert sum(file.is_file() for file in tmp_path.rglob("*")) == 1


def _recorded(stored: list[tuple[str, Any]]) -> Callable[..., None]:
    write = cache.store_entry

    def store(fingerprint: str, *arguments: Any) -> None:
        stored.append((fingerprint, jax.config.jax_default_matmul_precision))
        write(fingerprint, *arguments)

    return store
