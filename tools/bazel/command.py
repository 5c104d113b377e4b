# SPDX-License-Identifier: Apache-2.0
"""Run child processes with a time limit, and raise one-line errors."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandError(Exception):
    """An error for a tool that is missing, failed or timed out. The message is one line."""


def run(
    argv: Sequence[str | Path],
    *,
    seconds: int,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    hold: Sequence[int] = (),
) -> str:
    """Run `argv` and return its stdout. Raises CommandError.

    The limit applies even if this process is killed, because coreutils' timeout(1) enforces it.
    The child inherits the file descriptors in `hold`. If one of them is a lock, the lock is held
    until the last process that needs it ends.
    """
    command = [str(word) for word in argv]
    result = subprocess.run(
        ["timeout", "-k", "5", str(seconds), *command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        pass_fds=tuple(hold),
        check=False,
    )
    if result.returncode == 0:
        return result.stdout
    raise CommandError(f"{command[0]}: {_reason(result, seconds)}")


def _reason(result: subprocess.CompletedProcess[str], seconds: int) -> str:
    if result.returncode in (124, 137):
        return f"no answer in {seconds} s"
    if result.returncode == 127:
        return "not found on PATH"
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not line.lower().startswith(("w:", "npm warn"))]
    text = "; ".join(lines[:3])
    return f"exit {result.returncode}: {text[:400]}" if text else f"exit {result.returncode}"
