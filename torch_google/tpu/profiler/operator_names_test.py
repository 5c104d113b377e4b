# SPDX-License-Identifier: Apache-2.0
"""Tests that a trace names the operators of fused kernels, even if the program was cached."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

_PROGRAM = """
import json, sys, torch
from torch_google.tpu import autoload
autoload()
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Softmax(-1)).to("tpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    model(torch.ones(16, 32, device="tpu")).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.tpu.eager_mode("fused"):
    for _ in range(3):
        step()
        torch.tpu.wait_for_compiles()
    with torch.tpu.profiler.trace(sys.argv[1]) as trace:
        step()
print(json.dumps([str(trace.perfetto), torch.tpu.metrics().compiles]))
"""


def _traced(directory: Path) -> tuple[list[dict[str, Any]], int]:
    environment = {
        **os.environ,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCH_TPU_COMPILE_CACHE": str(directory / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(directory / "trace")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path, compiles = json.loads(done.stdout.splitlines()[-1])
    with gzip.open(path, "rt") as file:
        return json.load(file)["traceEvents"], compiles


def test_kernels_of_a_program_from_the_cache_have_the_names_of_operators(tmp_path: Path) -> None:
    for warm in (False, True):
        events, compiles = _traced(tmp_path)
        assert (compiles == 0) == warm
        kernels = [e for e in events if "hlo_op" in (e.get("args") or {})]
        named = {e["args"]["operators"]: e for e in kernels if "operators" in e["args"]}
        operators = {name for names in named for name in names.split(", ")}
        assert {"addmm", "_softmax", "_softmax_backward_data", "mm", "add_.Tensor"} <= operators
        for names, event in named.items():
            assert event["name"] == f"{names}: {event['args']['hlo_op']}"
        assert len({e["args"]["hlo_module"] for e in kernels if e["args"].get("operators")}) == 1
        _check_xplane(next(tmp_path.rglob("*.xplane.pb")), kernels)
        shutil.rmtree(tmp_path / "trace")


def _check_xplane(path: Path, kernels: list[dict[str, Any]]) -> None:
    """Check, with JAX's reader, that XProf's file has the arguments and names of the kernels."""
    shared = ("hlo_op", "operators", "modules", "sources")
    stats = [
        dict(event.stats)
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes
        for line in plane.lines
        for event in line.events
    ]
    found = [{key: row[key] for key in shared if key in row} for row in stats if "hlo_op" in row]
    expected = [{key: e["args"][key] for key in shared if key in e["args"]} for e in kernels]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, expected))
    data = path.read_bytes()
    for event in kernels:
        if "operators" in event["args"]:
            assert event["name"].encode() in data
