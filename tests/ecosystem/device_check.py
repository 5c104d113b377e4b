# SPDX-License-Identifier: Apache-2.0
"""Check that the device works, so that its failures are not recorded as those of libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PROBE = "import torch; torch.ones(1, device='tpu').add(1).item()"


class DeviceError(Exception):
    """A process cannot use the device. The message gives the cause and the remedy."""


def check(environment: Mapping[str, str], directory: Path) -> None:
    """Raise a DeviceError if a Python process in `directory` cannot use the device."""
    process = subprocess.run(
        [sys.executable, "-c", _PROBE],
        cwd=directory, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if process.returncode == 0:
        return
    lines = [line.strip() for line in process.stderr.splitlines() if line.strip()]
    # A warning gives the reason why the device was not loaded.
    causes = [line for line in lines[:-1] if "Warning: " in line] + lines[-1:]
    raise DeviceError(
        f"{sys.executable} cannot use the device tpu, so nothing ran. "
        "Use the Python of the environment that tests/ecosystem/install.py creates. Build "
        "torch_google/tpu/_C.so in the workspace. Unset TORCH_DEVICE_BACKEND_AUTOLOAD.\n"
        + ("\n".join(causes) or f"The process exited with status {process.returncode}.")
    )
