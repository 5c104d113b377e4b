# SPDX-License-Identifier: Apache-2.0
"""A packed program trains with Lightning in one or two processes; tpu's losses equal the CPU's."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_PAR = Path(__file__).with_name("lightning_program.par")


@cache
def _run(strategy: str, accelerator: str) -> dict[str, Any]:
    result = subprocess.run(
        [_PAR, strategy, accelerator], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("strategy", "accelerator", "reference"),
    [
        ("single", "auto", "single"),
        ("fabric", "auto", "single"),
        ("ddp", "tpu", "ddp"),
        ("model_parallel", "tpu", "ddp"),
    ],
)
def test_losses_equal_the_cpus(strategy: str, accelerator: str, reference: str) -> None:
    expected, got = _run(reference, "cpu"), _run(strategy, accelerator)
    assert (expected["device"], got["device"]) == ("cpu", "tpu")
    assert got["losses"] == pytest.approx(expected["losses"], rel=1e-5)
    assert got["losses"][-1] < got["losses"][0] / 2
