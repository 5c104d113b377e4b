# SPDX-License-Identifier: Apache-2.0
"""Tests that a step on `meta` is traced into the program that a job would compile on the CPU."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax.sharding import Mesh
from torch import nn
from torch.nn import functional

from torch_google.tpu import _C
from torch_google.tpu.estimate import estimation
from torch_google.tpu.estimate.capture import Captured, batch_spec, capture, largest_first
from torch_google.tpu.estimate.chips import CHIPS
from torch_google.tpu.estimate.page import page
from torch_google.tpu.estimate.report import Buffer, Cost, Report
from torch_google.tpu.release import V2_6


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.relu(self.up(x)))


def _captured(width: int = 64, *, train: bool = True, **options: Any) -> Captured:
    with torch.device("meta"):
        model = Net(width)
        x, y = torch.empty(16, width), torch.empty(16, dtype=torch.long)
    chosen: dict[str, Any] = {
        "devices": jax.local_devices(backend="cpu")[:1],
        "mesh": None,
        "shard": None,
        **options,
    }
    if not train:
        return capture(model, None, (x,), None, **chosen)
    if V2_6:
        pytest.skip("v2.6 cannot trace a training step")

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y)

    return capture(model, loss, (x, y), torch.optim.AdamW(model.parameters()), **chosen)


@pytest.fixture(scope="module")
def step() -> Captured:
    return _captured()


@pytest.fixture(scope="module")
def report(step: Captured) -> Report:
    base = {
        "topology": "v5e:1x1",
        "mesh": {},
        "devices": 1,
        "parameters": 33088,
        "available": int(CHIPS["v5e"].usable),
        "trace_seconds": step.seconds,
    }
    return estimation._report(step, step.lowered.compile(), 1.0, base, CHIPS["v5e"])


def test_arguments_have_the_names_of_tensors(step: Captured) -> None:
    assert set(step.arguments) >= {
        "up.weight",
        "down.bias",
        "exp_avg of up.weight",
        "exp_avg_sq of down.bias",
        "input 0",
        "input 1",
    }


def test_operators_have_modules_lines_and_flops(step: Captured) -> None:
    operators = list(step.operators.values())
    assert any(o.module == "up" and o.line.startswith("capture_test.py:") for o in operators)
    assert any(o.module == "down (backward)" and o.flops for o in operators)
    assert any(o.module == "optimizer" for o in operators)
    # There are two matmuls in the forward pass. The backward pass has two for `down`, but only one
    # for `up`, because x needs no gradient.
    assert sum(o.flops for o in operators) == 5 * 2 * 16 * 64 * 256


def test_a_step_allocates_nothing() -> None:
    limit, before = _C.memory_limit(0), torch.tpu.memory_allocated()
    captured = _captured(1 << 16, train=False)  # 128 GiB of weights
    assert "up.weight" in captured.arguments
    assert captured.fingerprint is not None
    assert (_C.memory_limit(0), torch.tpu.memory_allocated()) == (limit, before)


def test_the_program_is_the_one_that_runs(step: Captured) -> None:
    # The fingerprint identifies the program, because the compile cache uses it as the key.
    assert step.fingerprint == _captured().fingerprint
    assert step.fingerprint != _captured(128).fingerprint


def test_buffers_add_up_to_what_is_needed(report: Report) -> None:
    by_kind: dict[str, int] = {}
    for buffer in report.buffers:
        by_kind[buffer.kind] = by_kind.get(buffer.kind, 0) + buffer.bytes
    assert by_kind["temporary"] == report.temporaries
    assert by_kind["argument"] == pytest.approx(report.arguments, rel=0.01)
    assert report.fits
    assert report.verdict.startswith("fits, with 16.9")


def test_costs_are_those_of_operators(report: Report) -> None:
    assert sum(cost.flops for cost in report.costs) == report.model_flops
    assert report.costs == tuple(sorted(report.costs, key=lambda c: (-c.seconds, c.module, c.op)))
    assert all(0 <= cost.utilisation <= 1 for cost in report.costs)
    text = report.text()
    assert "up.weight" in text
    assert "Roofline" in text
    data = json.loads(report.json())
    assert data["fits"] is True
    assert data["needed"] == report.needed


def test_layers_are_grouped(report: Report) -> None:
    costs = tuple(
        Cost(f"layers.{layer}.{name}", "mm", "net.py:3", 10, 20, seconds, 5, used)
        for layer, seconds, used in ((0, 3.0, 1.0), (1, 1.0, 0.5))
        for name in ("up", "down")
    )
    buffers = (Buffer("copy.7", "temporary", 5), Buffer("copy.12", "temporary", 6))
    changed = dataclasses.replace(report, costs=costs, buffers=buffers)
    down, up = changed.grouped_costs
    assert up == Cost("2 x layers.*.up", "mm", "net.py:3", 20, 40, 4.0, 10, 3.5 / 4)
    assert down.module == "2 x layers.*.down"
    assert changed.grouped_buffers == (Buffer("2 x copy.*", "temporary", 11),)
    assert "2 x layers.*.up" in changed.text()
    assert "2 x layers.*.up" in page(changed, "layers")


def test_the_page_loads_nothing(report: Report) -> None:
    text = page(report, "a <model>")
    assert "a &lt;model&gt;" in text
    assert text.count("<svg") == 2
    for loads in ("http:", "https:", "src=", "href=", "@import", "url("):
        assert loads not in text


def test_a_program_that_is_too_large(step: Captured) -> None:
    error = RuntimeError(
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (18.00G) exceeds available HBM (15.75G)."
    )
    base: dict[str, Any] = {
        "topology": "v5e:1x1",
        "mesh": {},
        "devices": 1,
        "parameters": 1,
        "available": 1,
        "trace_seconds": 1.0,
    }
    report = estimation._too_large(step, error, 1.0, base, CHIPS["v5e"])
    assert not report.fits
    assert report.verdict == "does not fit by 2.42 GB"
    assert "exceeds available HBM" in report.text()
    assert "exceeds available HBM" in page(report, "large")


def test_an_input_on_the_cpu_is_rejected() -> None:
    with pytest.raises(ValueError, match="up.weight is on cpu"):
        estimation._check(Net(4), ())


def _mesh(**sizes: int) -> Mesh:
    devices = np.array(jax.local_devices(backend="cpu") * 64, dtype=object)
    shape = tuple(sizes.values())
    made: Any = _Sizes(tuple(sizes), dict(sizes), devices[: int(np.prod(shape))])
    mesh: Mesh = made
    return mesh


class _Sizes:
    """A stand-in for a mesh of more devices than a process has."""

    def __init__(self, names: tuple[str, ...], shape: dict[str, int], devices: Any) -> None:
        self.axis_names, self.shape, self.devices = names, shape, devices


def test_default_shardings() -> None:
    mesh = _mesh(data=4, model=2)
    assert list(largest_first((8, 64), mesh)) == ["model", "data"]
    assert list(largest_first((6,), mesh)) == ["model"]
    assert list(largest_first((7,), mesh)) == [None]
    assert list(batch_spec((8, 3), mesh)) == ["data"]
    assert list(batch_spec((6, 3), mesh)) == []
