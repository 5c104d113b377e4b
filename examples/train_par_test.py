# SPDX-License-Identifier: Apache-2.0
"""`train.par --device=tpu`, as a user runs it: one file, which registers the device by itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

_PAR = Path(__file__).with_name("train.par")


def _train(*flags: str) -> str:
    done = subprocess.run(
        [str(_PAR), "--output=", *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("mode", ["strict", "fused", "debug", "compile"])
def test_it_trains_on_the_device(mode: str) -> None:
    found = re.search(r"test accuracy (0\.\d+) .* on tpu", _train("--device=tpu", f"--mode={mode}"))
    assert found is not None
    assert float(found[1]) >= 0.97


def test_on_the_cpu_it_starts_no_device() -> None:
    done = subprocess.run(
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
    assert done.stdout == "False False\n", done.stderr
