# SPDX-License-Identifier: Apache-2.0
"""Tests that a trace names the operators, modules and lines of torch.compile's kernels."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torch_google.tpu.release import V2_6

_PROGRAM = """
import json, sys, torch
from torch_google.tpu import autoload
autoload()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(2))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)  # layer
        return x.softmax(-1)  # softmax
model = Net().to("tpu")
compiled = torch.compile(model, backend="tpu")
def step():
    compiled(torch.ones(16, 32, device="tpu")).square().sum().backward()
step()
with torch.tpu.profiler.trace(sys.argv[1]) as trace:
    step()
print(json.dumps([str(trace.perfetto), torch.tpu.metrics().compiles]))
"""


def _traced(directory: Path, text: str) -> tuple[list[dict[str, Any]], int]:
    (directory / "net.py").write_text(text)
    environment = {
        **os.environ,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCH_TPU_COMPILE_CACHE": str(directory / "cache"),
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "graphs"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "net.py", str(directory / "trace")],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path, compiles = json.loads(done.stdout.splitlines()[-1])
    with gzip.open(path, "rt") as file:
        return json.load(file)["traceEvents"], compiles


@pytest.mark.skipif(V2_6, reason="v2.6 does not mark the backward operators of a graph")
def test_kernels_have_modules_and_lines_also_from_the_cache(tmp_path: Path) -> None:
    for warm in (False, True):
        # The second process reads its graphs and programs from the caches.
        events, compiles = _traced(tmp_path, _PROGRAM)
        assert (compiles == 0) == warm
        kernels = [e["args"] for e in events if "operators" in (e.get("args") or {})]
        found = {(e["operators"], e.get("modules"), e.get("sources")) for e in kernels}
        layer, softmax = (
            1 + next(i for i, line in enumerate(_PROGRAM.splitlines()) if line.endswith(mark))
            for mark in ("# layer", "# softmax")
        )
        modules = {part for _, texts, _ in found for part in (texts or "").split(", ")}
        sources = {part for _, _, texts in found for part in (texts or "").split(", ")}
        assert {"layers.0", "layers.1", "backward of layers.0"} <= modules
        assert {f"net.py:{layer}", f"net.py:{softmax}", f"backward of net.py:{layer}"} <= sources
        operators = {part for texts, _, _ in found for part in texts.split(", ")}
        assert {"_softmax", "_softmax_backward_data", "mm"} <= operators


def test_a_program_in_the_cache_does_not_depend_on_lines(tmp_path: Path) -> None:
    _traced(tmp_path, _PROGRAM)
    _, compiles = _traced(tmp_path, f"# A new line.\n{_PROGRAM}")
    assert compiles == 0
