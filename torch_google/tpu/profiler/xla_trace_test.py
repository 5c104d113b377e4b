# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jax
import pytest
import torch
from torch.autograd.profiler import record_function

from torch_google.tpu import _C

MODES = sorted(_C.Mode.__members__)


def events(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        actual: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return actual


def step() -> None:
    x = torch.ones(8, 8, device="tpu", requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)
    with record_function("forward"):
        loss = (x @ x).sum()
    with record_function("backward"):
        loss.backward()
    optimizer.step()


@pytest.mark.parametrize("mode", MODES)
def test_ranges_and_programs_are_in_the_trace(mode: Any, tmp_path: Path) -> None:
    before = record_function.__enter__
    with torch.tpu.eager_mode(mode):
        step()
        with torch.tpu.profiler.trace(tmp_path) as trace:
            step()
    assert record_function.__enter__ is before
    assert trace.xplane.stat().st_size > 0
    named = {event.get("name"): event for event in events(trace.perfetto)}
    assert {"forward", "backward", "Optimizer.step#SGD.step"} <= set(named)
    assert named["forward"]["ph"] == "X"
    assert named["forward"]["dur"] > 0
    if mode == "strict":
        assert any("aten_mm" in str(name) for name in named)


def test_the_calls_of_python_are_there_when_asked_for(tmp_path: Path) -> None:
    for python in (False, True):
        with torch.tpu.profiler.trace(tmp_path / str(python), python=python) as trace:
            step()
        has_calls = any("xla_trace_test.py" in str(e.get("name")) for e in events(trace.perfetto))
        assert has_calls == python


def test_one_trace_at_a_time(tmp_path: Path) -> None:
    with torch.tpu.profiler.trace(tmp_path) as outer:
        with (
            pytest.raises(RuntimeError, match=f"a trace into {tmp_path} is running already"),
            torch.tpu.profiler.trace(tmp_path / "other"),
        ):
            pass
        with pytest.raises(RuntimeError, match="still running. Leave its block first"):
            _ = outer.xplane
    jax.profiler.start_trace(tmp_path)
    try:
        with (
            pytest.raises(RuntimeError, match="End the trace started by jax.profiler first"),
            torch.tpu.profiler.trace(tmp_path),
        ):
            pass
    finally:
        jax.profiler.stop_trace()
    with torch.tpu.profiler.trace(tmp_path):
        pass


def test_an_error_ends_the_trace(tmp_path: Path) -> None:
    def failing() -> None:
        with torch.tpu.profiler.trace(tmp_path), record_function("failing"):
            raise KeyError("mine")

    before = record_function.__enter__
    with pytest.raises(KeyError, match="mine"):
        failing()
    assert record_function.__enter__ is before
    with torch.tpu.profiler.trace(tmp_path) as trace:
        step()
    assert trace.perfetto.exists()


def test_a_range_may_outlive_its_trace(tmp_path: Path) -> None:
    outlives = record_function("outlives")
    with torch.tpu.profiler.trace(tmp_path):
        outlives.__enter__()
    outlives.__exit__(None, None, None)


def test_torch_s_own_profiler_sees_the_operators() -> None:
    with torch.profiler.profile() as trace, record_function("mine"):
        step()
    names = {event.key: event for event in trace.key_averages()}
    assert {"mine", "forward", "aten::mm", "Optimizer.step#SGD.step"} <= set(names)
    assert names["aten::mm"].count >= 3


def test_steps_are_in_the_trace(tmp_path: Path) -> None:
    step()
    with torch.tpu.profiler.trace(tmp_path) as trace:
        for number in (7, 8):
            with trace.step(number):
                step()
    steps = [event for event in events(trace.perfetto) if event.get("name") == "step"]
    assert [str(event["args"]["step_num"]) for event in steps] == ["7", "8"]
    assert all(event["dur"] > 0 for event in steps)
