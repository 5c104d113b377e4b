# SPDX-License-Identifier: Apache-2.0
"""A job compiles no program if its training step was written to the compile cache in advance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.par.testing.budget import only_full
from torch_google.tpu.estimate import command, fill_for_cpu
from torch_google.tpu.release import V2_6

if V2_6:
    pytest.skip("v2.6 cannot trace a training step", allow_module_level=True)

_MODULE = """
import torch
from torch.nn import functional

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 24), torch.nn.Linear(24, 10)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

def train(batch=8):
    net = Net()
    x, y = torch.zeros(batch, 16), torch.zeros(batch, dtype=torch.long)
    return net, lambda x, y: functional.cross_entropy(net(x), y), (x, y)

def infer(batch=8):
    return Net(), (torch.zeros(batch, 16),)
"""
# The job creates the same model on the device and runs the step. It then prints the number of
# programs that it compiled, and the number that it loaded from the compile cache.
_JOB = """
import json, os, sys
sys.path.insert(0, os.getcwd())
import torch
from torch_google.tpu import autoload
autoload()
from torch_google.tpu import compile_step
import net

name, batch = sys.argv[1], int(sys.argv[2])
model, *loss, inputs = getattr(net, name)(batch)
model.to("tpu")
inputs = [x.to("tpu") for x in inputs]
if loss:
    step = compile_step(loss[0], torch.optim.AdamW(model.parameters()))
    values = [step(*inputs).item() for _ in range(3)]
    assert values[0] > values[-1]
else:
    with torch.no_grad():
        torch.compile(model, backend="tpu")(*inputs).cpu()
done = torch.tpu.metrics()
print(json.dumps([done.compiles, done.disk_hits]))
"""


def _run(directory: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "TORCH_TPU_COMPILE_CACHE": str(directory / "cache"),
        "TORCH_TPU_PLATFORM": "cpu",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,  # where the command looks for the module; a PAR ignores PYTHONPATH
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["train", *only_full("infer")])
def test_a_job_compiles_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(_MODULE)
    options = ["--topology=cpu", "--fill-cache", "--batch=8"]
    printed = _run(tmp_path, "-m", "torch_google.tpu.estimate", f"net:{name}", *options)
    assert f"Compile cache {tmp_path / 'cache'}: " in printed
    compiles, hits = json.loads(_run(tmp_path, "-c", _JOB, name, "8"))
    assert compiles == 0
    assert hits > 0
    # A step with a different batch size is a different program, which is not in the cache.
    compiles, _ = json.loads(_run(tmp_path, "-c", _JOB, name, "4"))
    assert compiles == 1


def test_without_a_cache() -> None:
    with torch.device("meta"):
        model, x = torch.nn.Linear(4, 4), torch.empty(2, 4)
    before = torch.tpu.get_compile_cache()
    torch.tpu.set_compile_cache(None)
    try:
        with pytest.raises(ValueError, match="there is no compile cache to fill"):
            fill_for_cpu(model, (x,))
    finally:
        torch.tpu.set_compile_cache(before)


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    with torch.device("meta"):
        model, x = torch.nn.Linear(4, 4), torch.empty(2, 4)
    before = torch.tpu.get_compile_cache()
    torch.tpu.set_compile_cache(tmp_path, max_bytes=1)  # no entry is that small
    try:
        with pytest.raises(RuntimeError, match="the program was not written to"):
            fill_for_cpu(model, (x,))
    finally:
        torch.tpu.set_compile_cache(before)


@pytest.mark.parametrize("options", [[], ["--fill-cache", "--mesh=data=4"]])
def test_the_cpu_has_no_estimates(options: list[str], capsys: Any) -> None:
    assert command.main(["json:dumps", "--topology=cpu", *options]) == 1
    assert "--topology=cpu has no estimates and no mesh" in capsys.readouterr().err
