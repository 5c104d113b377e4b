# SPDX-License-Identifier: Apache-2.0
"""Run `train.par --device=tpu` as a user would, without registering the device explicitly."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tools.par.testing.budget import only_full
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_PAR = Path(__file__).with_name("train.par")
_SHORT = ("--epochs=2", "--learning_rate=5e-3")


def _train(*flags: str) -> str:
    result = subprocess.run(
        [str(_PAR), "--output=", *flags],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XLA_FLAGS": XLA_FLAGS},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("mode", ["strict", *only_full("fused", "debug", "compile")])
def test_it_trains_on_the_device(mode: str) -> None:
    match = re.search(
        r"test accuracy (0\.\d+) .* on tpu", _train("--device=tpu", f"--mode={mode}", *_SHORT)
    )
    assert match is not None
    assert float(match[1]) >= 0.95


def test_on_the_cpu_it_starts_no_device() -> None:
    result = subprocess.run(
        [
            str(_PAR),
            "-c",
            "import sys, torch; print('jax' in sys.modules, torch.tpu.is_initialized())",
        ],
        env={"PAR_INTERPRETER": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == "False False\n", result.stderr
