# SPDX-License-Identifier: Apache-2.0
"""Tests that the kernels of a trace name the modules and source lines of their operators."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils.checkpoint import checkpoint

from torch_google.tpu import _C
from torch_google.tpu.profiler.origins import Recording

Kernels = list[dict[str, str]]

# The layers on lines 12 and 14 have the same operators and sizes.
_MODEL = """\
import json, sys, torch
from torch import nn
from torch_google.tpu import autoload
autoload()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Softmax(-1), nn.Linear(32, 32))
            for _ in range(2))
    def forward(self, x):
        y = self.layers[0](x)
        end_of_trace()
        z = self.layers[1](y)
        end_of_trace()
        return z
def end_of_trace():
    if separate:
        torch.tpu.synchronize()
def step():
    x = torch.ones(16, 32, device="tpu")
    end_of_trace()
    model(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
separate = sys.argv[2] == "separate"
model = Net().to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.tpu.eager_mode("fused"):
    for _ in range(3):
        step()
        torch.tpu.wait_for_compiles()
    with torch.tpu.profiler.trace(sys.argv[1]) as trace:
        step()
        step()
print(json.dumps([str(trace.perfetto), torch.tpu.metrics().compiles]))
"""


@pytest.mark.parametrize("traces", ["separate", "together"])
def test_equal_layers_have_their_own_modules_and_lines(traces: str, tmp_path: Path) -> None:
    for warm in (False, True):
        kernels = _traced(tmp_path, traces, warm=warm)
        for layer, line in ((0, 12), (1, 14)):
            forward = [each for each in kernels if each.get("sources") == f"model.py:{line}"]
            linear = [each for each in forward if each["operators"] == "addmm"]
            assert _values(linear, "modules") == {
                f"Net.layers.{layer}.0",
                f"Net.layers.{layer}.3",
            }
            products = [
                each
                for each in kernels
                if each.get("sources") == f"backward of model.py:{line}"
                and each["operators"] == "mm"
            ]
            assert _values(products, "modules") == {
                f"backward of Net.layers.{layer}.0",
                f"backward of Net.layers.{layer}.3",
            }
            if traces == "separate":
                programs = {each["hlo_module"] for each in forward}
                assert len(programs) == 1
                # The other layer's kernels belong to the same program.
                shared = [
                    each
                    for each in kernels
                    if each["hlo_module"] in programs and "operators" in each
                ]
                assert len(forward) * 2 == len(shared)
        # The optimizer has no module.
        update = [each for each in kernels if each.get("sources") == "model.py:24"]
        assert "add_.Tensor" in _values(update, "operators")
        assert not _values(update, "modules")


def test_parts_of_the_backward_pass_that_run_python(tmp_path: Path) -> None:
    """The trace names the modules of recomputed kernels and the lines of user-defined gradients."""
    network = _Checkpointed(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Softmax(-1))).to("tpu")
    kernels = _kernels_of(tmp_path, lambda x: _Triple.apply(network(x)))
    assert "_Checkpointed.layer.1" in _values(kernels, "modules")
    assert "backward of _Checkpointed.layer.1" in _values(kernels, "modules")
    formula = [each for each in kernels if "exp" in each.get("operators", "").split(", ")]
    lines = {f"{Path(text).name}" for text in _values(formula, "sources")}
    assert f"{Path(__file__).name}:{_Triple.backward.__code__.co_firstlineno + 2}" in lines


def test_nothing_is_recorded_without_a_trace(tmp_path: Path) -> None:
    network = nn.Linear(8, 8).to("tpu")
    hooks = (nn_module._global_forward_pre_hooks, nn_module._global_forward_hooks)
    before = [len(each) for each in hooks]
    filters = list(warnings.filters)
    with torch.tpu.profiler.trace(tmp_path):
        network(torch.ones(2, 8, device="tpu"))
        assert [len(each) for each in hooks] == [count + 1 for count in before]
    assert [len(each) for each in hooks] == before
    assert warnings.filters == filters
    with torch.tpu.eager_mode("fused"):
        network(torch.ones(2, 8, device="tpu")).tanh().exp().cpu()
    assert _C.stop_origins() == ([], [])


def test_operators_recorded_before_the_trace_have_no_origin() -> None:
    with torch.tpu.eager_mode("fused"):
        _run_four_operators()  # compiles the program
        torch.tpu.wait_for_compiles()
        _run_four_operators()
        _C.start_origins()
        x = torch.ones(3, 3, device="tpu").exp().sin().cos()
        _C.start_origins()
        y = x.cpu()
        origins, runs = _C.stop_origins()
    assert y.shape == (3, 3)
    assert origins == []
    assert [operators for _, operators in runs] in ([[-1] * 4], [])


def _event(name: str, start: float, *, run: int | None = None) -> dict[str, Any]:
    ids = {} if run is None else {"run_id": str(run)}
    return {"ts": start, "dur": 1.0, "pid": 1, "args": {"hlo_op": name, **ids}}


def _runs_of(events: list[dict[str, Any]], runs: int) -> list[list[int]]:
    """Return the runs that each event may belong to, for a program with one operator."""
    recording = Recording()
    recording._runs["program"] = [(number,) for number in range(runs)]
    return [[run[0] for run in each] for each in recording.runs("program", events)]


def test_runs_with_ids_are_matched_by_their_ids() -> None:
    events = [_event("a", 2, run=8), _event("b", 3, run=8), _event("a", 9, run=7)]
    assert _runs_of(events, 2) == [[1], [1], [0]]
    assert _runs_of(events, 3) == [[0, 1, 2]] * 3  # the trace lacks a run
    overflow = [_event("a", number, run=run) for number, run in enumerate((2**31 - 1, -(2**31)))]
    assert _runs_of(overflow, 2) == [[0], [1]]
    assert _runs_of([_event("a", 1, run=5), _event("a", 2, run=70)], 2) == [[0, 1]] * 2


def test_runs_without_ids_are_matched_by_their_order() -> None:
    events = [_event(name, start) for start, name in enumerate("aabaab")]
    assert _runs_of(events, 2) == [[0], [0], [0], [1], [1], [1]]
    assert _runs_of(events, 4) == [[0, 1, 2, 3]] * 6
    assert _runs_of(events, 0) == [[]] * 6
    # The second and third runs overlap.
    events = [_event(name, start) for start, name in enumerate("abaabb")]
    assert _runs_of(events, 3) == [[0], [0], [1, 2], [1, 2], [1, 2], [1, 2]]


class _Checkpointed(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        return checkpoint(self.layer, x, use_reentrant=False)


class _Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient.exp()


def _run_four_operators() -> None:
    torch.ones(3, 3, device="tpu").exp().sin().cos().cpu()


def _kernels_of(directory: Path, function: Any) -> Kernels:
    def step() -> None:
        x = torch.ones(4, 8, device="tpu", requires_grad=True)
        function(x).sum().backward()
        torch.tpu.synchronize()

    with torch.tpu.eager_mode("fused"):
        for _ in range(3):
            step()
            torch.tpu.wait_for_compiles()
        with torch.tpu.profiler.trace(directory) as trace:
            step()
    return _kernels(trace.perfetto)


def _traced(directory: Path, traces: str, *, warm: bool) -> Kernels:
    """Run the model in a separate process, and return the kernels of its fused programs."""
    (directory / "model.py").write_text(_MODEL)
    environment = {
        **os.environ,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCH_TPU_COMPILE_CACHE": str(directory / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "model.py", str(directory / "trace"), traces],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path, compiles = json.loads(done.stdout.splitlines()[-1])
    assert (compiles == 0) == warm
    return _kernels(Path(path))


def _kernels(perfetto: Path) -> Kernels:
    with gzip.open(perfetto, "rt") as file:
        events = json.load(file)["traceEvents"]
    arguments = [event.get("args") or {} for event in events]
    return [each for each in arguments if each.get("hlo_module", "").startswith("jit_fused_")]


def _values(kernels: Kernels, name: str) -> set[str]:
    return {text for kernel in kernels for text in kernel.get(name, "").split(", ") if text}
