# SPDX-License-Identifier: Apache-2.0
"""Check that the device works, before its failures are taken for those of libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = "import torch; torch.ones(1, device='tpu').add(1).item()"


class DeviceError(Exception):
    """Raised if a process cannot use the device. The message says why, and what to do."""


def check(environment: Mapping[str, str], directory: Path) -> None:
    """Raise a DeviceError if a Python process in `directory` cannot use the device."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=directory, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    # A warning gives the reason why the device was not loaded.
    causes = [line for line in lines[:-1] if "Warning: " in line] + lines[-1:]
    raise DeviceError(
        f"{sys.executable} cannot use the device tpu, so nothing ran. "
        "Use the Python of the environment that tests/ecosystem/install.py creates, with "
        "torch_google/tpu/_C.so in the workspace, and unset TORCH_DEVICE_BACKEND_AUTOLOAD.\n"
        + ("\n".join(causes) or f"The process exited {done.returncode}.")
    )
