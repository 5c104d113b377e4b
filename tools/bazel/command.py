# SPDX-License-Identifier: Apache-2.0
"""Run child processes with a time limit, and raise one-line errors."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class CommandError(Exception):
    """Raised if a command is missing, fails or times out. The message is one line."""


def run(
    argv: Sequence[str | Path],
    *,
    seconds: int,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    hold: Sequence[int] = (),
) -> str:
    """Run `argv` and return its stdout. Raises CommandError if it fails or takes too long.

    The time limit applies even if this process is killed, because coreutils' timeout(1) enforces
    it. The child inherits the file descriptors in `hold`, so a lock on one of them is held until
    the last process that has inherited it exits.
    """
    result = subprocess.run(
        _limited(argv, seconds),
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
    raise CommandError(f"{argv[0]}: {_reason(result, seconds)}")


def run_unless(
    argv: Sequence[str | Path],
    *,
    hopeless: Callable[[str], str | None],
    seconds: int,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Like `run`, but terminate the command as soon as `hopeless` returns a reason.

    `hopeless` is called with each line of stderr, and returns a reason or None. The CommandError's
    message contains the reason.
    """
    with (
        tempfile.TemporaryFile("w+", errors="replace") as stdout,
        subprocess.Popen(
            _limited(argv, seconds),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            reason = hopeless(line)
            if reason is not None:
                process.terminate()  # timeout(1) passes the signal on to its child
                raise CommandError(f"{argv[0]}: {reason}")
        status = process.wait()
        stdout.seek(0)
        result = subprocess.CompletedProcess(argv, status, stdout.read(), "".join(lines))
    if result.returncode == 0:
        return result.stdout
    raise CommandError(f"{argv[0]}: {_reason(result, seconds)}")


def _limited(argv: Sequence[str | Path], seconds: int) -> list[str]:
    return ["timeout", "-k", "5", str(seconds), *map(str, argv)]


def _reason(result: subprocess.CompletedProcess[str], seconds: int) -> str:
    if result.returncode in (124, 137):
        return f"no answer in {seconds} s"
    if result.returncode == 127:
        return "not found on PATH"
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not line.lower().startswith(("w:", "npm warn"))]
    text = "; ".join(lines[:3])
    return f"exit {result.returncode}: {text[:400]}" if text else f"exit {result.returncode}"
