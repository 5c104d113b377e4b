# SPDX-License-Identifier: Apache-2.0
"""Tests that a second process with the same compile cache compiles nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.par.testing.budget import only_full

_PROGRAM = """
import jax, json, sys, torch
from jax.experimental import serialize_executable
from torch_google.tpu import autoload
autoload()
mode = sys.argv[1]
asked = []
analysis = jax.stages.Compiled.memory_analysis
jax.stages.Compiled.memory_analysis = lambda self: [asked.append(1), analysis(self)][1]
read = []
load = serialize_executable.deserialize_and_load
def counted(*args, **kwargs):
    read.append(1)
    return load(*args, **kwargs)
serialize_executable.deserialize_and_load = counted
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 4)
).to("tpu")
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
x = torch.randn(5, 8).to("tpu")
target = torch.arange(5).remainder(4).to("tpu")
losses = []
step = torch.compile(model) if mode == "compile" else model
with torch.tpu.eager_mode("strict" if mode == "compile" else mode):
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(step(x[:, :8]), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        torch.tpu.wait_for_compiles()
    y = torch.zeros(4, 6, device="tpu")
    y.t()[1:3].mul_(2).add_(torch.arange(4.0, device="tpu"))
    losses += y.sum(1).tolist()
torch.tpu.wait_for_compiles()
metrics = torch.tpu.metrics()
loaded = [name for name in sys.argv[2:] if name in sys.modules]
counts = [metrics.compiles, metrics.disk_hits, metrics.disk_misses]
print(json.dumps([losses, *counts, loaded, len(asked), len(read)]))
"""


# Modules that must be loaded only after a cache miss: the lowerings, their table, and torch's
# tracers.
_FOR_MISSES = (
    "scipy",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch_google.tpu.lowerings.families",
    "torch_google.tpu.lowerings.matmul",
    "torch_google.tpu.program.interpreter",
    "torch_google.tpu.program.operator_lowering",
    "torch_google.tpu.program.graph_tracing",
)


def _run(cache: Path, mode: str, *, warned: bool = False) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, mode, *_FOR_MISSES],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TORCH_TPU_COMPILE_CACHE": str(cache),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning") == warned, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("mode", ["fused", "compile", *only_full("strict")])
def test_it_compiles_nothing_and_computes_the_same(tmp_path: Path, mode: str) -> None:
    losses, compiles, hits, misses, loaded, asked, _ = _run(tmp_path, mode)
    assert compiles > 20
    assert misses >= compiles > hits
    assert "torch_google.tpu.program.graph_tracing" in loaded
    assert bool(asked) == (mode != "strict")
    again, compiles, hits, misses, loaded, asked, read = _run(tmp_path, mode)
    assert again == losses
    assert (compiles, misses) == (0, 0)
    assert hits > 20
    assert read <= hits
    # Operators that run only inside fused programs count as hits, but their own programs are not
    # loaded from the cache.
    if mode == "fused":
        assert read < hits / 2
    if mode != "compile":  # with torch.compile, Dynamo traces in every process
        assert (loaded, asked) == ([], 0)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["fused", *only_full("strict")])
def test_programs_that_cannot_be_loaded_are_compiled_anew(tmp_path: Path, mode: str) -> None:
    losses, compiles, *_ = _run(tmp_path, mode)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_bytes(_of_another_make(path.read_bytes()))
    again, recompiled, _, misses, *_ = _run(tmp_path, mode, warned=True)
    assert again == losses
    assert 0 < recompiled <= compiles
    assert misses == recompiled
    again, recompiled, *_ = _run(tmp_path, mode)
    assert (again, recompiled) == (losses, 0)


def _of_another_make(entry: bytes) -> bytes:
    """Return a valid cache entry with an executable that is not in XLA's format."""
    start = entry.index(b"\n") + 1
    frame = start + hashlib.sha256().digest_size
    length = int.from_bytes(entry[frame : frame + 8], "little")
    code = entry[frame + 8 + length :]
    body = entry[frame : frame + 8 + length] + (b"no executable" if code else b"")
    return entry[:start] + hashlib.sha256(body).digest() + body


_MOVING = """
import torch
from torch_google.tpu import autoload
autoload()
x = torch.zeros(20, 4, device="tpu")
for row in range(16):
    x[row].add_(row)
print(x.sum().item(), torch.tpu.metrics().compiles)
"""


@pytest.mark.full
def test_views_that_moved_in_the_first_process_move_in_the_second(tmp_path: Path) -> None:
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _MOVING],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "TORCH_TPU_COMPILE_CACHE": str(tmp_path),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout.split())
    (total, first), (again, second) = outputs
    assert total == again == "480.0"
    assert int(first) > 8
    assert second == "0"
