# SPDX-License-Identifier: Apache-2.0
"""Wait until the ranks of sum.py, started with wait-with-pid-in=DIR, have begun to wait."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path


def wait_for_pids(
    directory: Path, count: int, process: subprocess.Popen[str], *, seconds: float
) -> list[int]:
    """Wait until `count` ranks have reported their process ids, and return the ids.

    Return fewer ids if `process`, the ranks' parent, exits first. Raises TimeoutError after
    `seconds`.
    """
    deadline = time.monotonic() + seconds
    while len(files := list(directory.glob("*.pid"))) < count and process.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(files)} of {count} ranks wait after {seconds:.0f} s")
        time.sleep(0.05)
    return [int(file.stem) for file in files]


def is_alive(pid: int) -> bool:
    """Return whether a process is running and is not a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
