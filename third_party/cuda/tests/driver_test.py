# SPDX-License-Identifier: Apache-2.0
"""A kernel call raises a one-line error if the driver is too old, finds no GPU or fails.

The driver is a stub, because test machines have no driver. The CUDA runtime that loads it is real.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_STUB = Path(__file__).with_name("stub_driver.so")
_CALL = """
from third_party.cuda.tests import _doubled
try:
    _doubled.doubled([1.0])
except RuntimeError as error:
    print(error)
"""
_NO_DEVICE, _UNKNOWN = 100, 999


@pytest.mark.parametrize(
    ("version", "status", "message"),
    [
        (
            11040,
            0,
            "the NVIDIA driver supports CUDA 11.4, and the kernel needs CUDA 12.0 or newer. Install"
            " driver 525 or newer, or keep the tensors on the CPU.",
        ),
        *[
            (
                version,
                _NO_DEVICE,
                "the NVIDIA driver finds no GPU. Check nvidia-smi and CUDA_VISIBLE_DEVICES, or keep"
                " the tensors on the CPU.",
            )
            for version in (12000, 12090, 13000)
        ],
        (
            12090,
            _UNKNOWN,
            "cudaErrorUnknown, unknown error. Run again with CUDA_LAUNCH_BLOCKING=1 to find the"
            " kernel.",
        ),
    ],
)
def test_one_line_says_what_is_wrong_with_the_driver(
    version: int, status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(_STUB.resolve())
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(tmp_path),
        "STUB_DRIVER_VERSION": str(version),
        "STUB_DRIVER_INIT": str(status),
    }
    result = subprocess.run(
        [sys.executable, "-c", _CALL], env=environment, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"doubled: {message}\n"
