# SPDX-License-Identifier: Apache-2.0
"""Runs a test's program in a separate process with several simulated devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_START = """
import copy, io, json, sys
from functools import partial
import torch
from torch import nn
from torch_google.tpu import autoload
autoload()
torch.set_num_threads(1)
from torch_google.tpu import _C, spmd
mode = sys.argv[1] if len(sys.argv) > 1 else "strict"
_C.set_global_mode(getattr(_C.Mode, "strict" if mode == "compile" else mode))
torch.manual_seed(0)
def marked(tensor, mesh, *spec):
    spmd.mark_sharding(tensor, mesh, spec)
    return tensor
def spec_of(tensor):
    view = spmd.sharding_of(tensor)
    return None if view is None else view.partition_spec
def message(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("no error")
"""


def run(program: str, *arguments: str, devices: int = 4, cache: Path | None = None) -> Any:
    """Run a program and return the last line that it prints, parsed as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _START + program, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TORCH_TPU_PLATFORM": "cpu",
            "JAX_NUM_CPU_DEVICES": str(devices),
            **({} if cache is None else {"TORCH_TPU_COMPILE_CACHE": str(cache)}),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
