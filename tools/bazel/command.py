# SPDX-License-Identifier: Apache-2.0
"""Child processes with a time limit, and the error that says which tool failed and how."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandError(Exception):
    """A tool is missing, failed, or ran past its time; the text is one line."""


def run(
    argv: Sequence[str | Path],
    *,
    seconds: int,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    hold: Sequence[int] = (),
) -> str:
    """Returns what `argv` prints on stdout, or raises CommandError.

    The limit is kept by coreutils' timeout(1) in a process of its own, so that a child also ends
    when this process was killed. File descriptors in `hold` (a lock) stay open in the child: the
    lock is then free only when nothing works under it any more.
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
    found = "; ".join(lines[:3])
    return f"exit {result.returncode}: {found[:400]}" if found else f"exit {result.returncode}"
