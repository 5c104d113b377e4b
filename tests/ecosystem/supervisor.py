# SPDX-License-Identifier: Apache-2.0
"""Run cases in child processes, and survive a case that crashes or hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ecosystem import device_check
from tests.ecosystem.results import Verdict

_ROOT = Path(__file__).parents[2]
_POLL = 0.2


@dataclass(frozen=True)
class Outcome:
    """The verdict of a case in one mode. `key` is `LIBRARY/CASE:MODE`."""

    key: str
    verdict: Verdict
    cause: str


def check_device() -> None:
    """Raise a DeviceError if child processes cannot use the device."""
    with tempfile.TemporaryDirectory() as scratch:
        device_check.check(_environment(scratch), Path(scratch))


def _environment(scratch: str) -> dict[str, str]:
    return {
        "TORCH_TPU_COMPILE_CACHE": str(Path(scratch, "programs")),
        **os.environ,
        "PYTHONPATH": str(_ROOT),
    }


def outcomes(
    keys: Sequence[str], *, seconds: float, batch: int = 30, log: Path
) -> Iterator[Outcome]:
    """Run cases, given as `LIBRARY/CASE:MODE`; yield an outcome as soon as a case finishes.

    A case has `seconds` of time in each mode. A child process runs `batch` keys, and appends its
    output to `log`.
    """
    with tempfile.TemporaryDirectory() as scratch, log.open("a", encoding="utf-8") as output:
        journal = Path(scratch, "journal")
        environment = _environment(scratch)
        todo = list(keys)
        while todo:
            some, todo = todo[:batch], todo[batch:]
            journal.write_text("", encoding="utf-8")
            with subprocess.Popen(
                [sys.executable, "-m", "tests.ecosystem.child", str(journal), *some],
                stdout=output, stderr=output, env=environment, cwd=scratch,
            ) as child:  # fmt: skip
                yield from _outcomes(child, journal, some, seconds)
            # If a case terminated the process, the cases after it run in a new process.
            todo = some + todo


def _outcomes(
    child: subprocess.Popen[bytes], journal: Path, todo: list[str], seconds: float
) -> Iterator[Outcome]:
    """Yield the outcomes that a child writes until it exits, and remove their keys from `todo`."""
    read, current, since = 0, "", time.monotonic()
    while True:
        ended = child.poll() is not None
        lines = journal.read_text(encoding="utf-8").splitlines()
        for line in lines[read:]:
            entry = json.loads(line)
            since, current = time.monotonic(), entry.get("begins", current)
            if "ends" in entry:
                todo.remove(entry["ends"])
                yield Outcome(entry["ends"], Verdict(entry["verdict"]), entry["cause"])
        read = len(lines)
        if ended:
            break
        if time.monotonic() - since > seconds:
            child.kill()
            child.wait()
            yield _lost(current, todo, Verdict.SLOW, f"it took more than {seconds:.0f} s")
            return
        time.sleep(_POLL)
    if todo:
        yield _lost(current, todo, Verdict.CRASHED, f"its process exited {child.returncode}")


def _lost(current: str, todo: list[str], verdict: Verdict, cause: str) -> Outcome:
    """Return the outcome of the case that was running when the process ended.

    If the case was still running on the CPU, return an outcome for its first mode, with the verdict
    BROKEN.
    """
    if current not in todo:  # the case was still running on the CPU
        current, verdict = todo[0], Verdict.BROKEN
    todo.remove(current)
    return Outcome(current, verdict, cause)
