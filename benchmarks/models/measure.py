# SPDX-License-Identifier: Apache-2.0
"""Measure models in worker processes, one per program, in alternation with torch on the CPU."""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.models.model import BASE, Key
from benchmarks.models.row import Row, Verdict
from benchmarks.tpu_eager.measure import environment, pin

_ROOT = Path(__file__).resolve().parents[2]
_CAUSE = 200  # The largest number of characters of a cause.


@dataclass(frozen=True)
class Limits:
    """The number of rounds, and two times in seconds.

    `seconds` is how long each program runs in each round, and `limit` is the timeout for each
    request to a worker.
    """

    rounds: int
    seconds: float
    limit: float


class WorkerError(Exception):
    """A worker failed. `verdict` and `cause` describe the failure in the table of results."""

    def __init__(self, verdict: Verdict, cause: str) -> None:
        super().__init__(cause)
        self.verdict = verdict
        self.cause = cause if len(cause) <= _CAUSE else cause[:_CAUSE] + "..."


class Worker:
    """A process, pinned to one processor, that runs a model in one program (see model.py)."""

    def __init__(self, command: Sequence[str], *, log: Path, scratch: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                env=_environment(scratch),
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                preexec_fn=lambda: pin(1),
            )

    def ask(self, request: Mapping[str, Any], *, limit: float) -> dict[str, Any]:
        """Return the answer to a request. Raises WorkerError on a failure, crash or timeout.

        `limit` is the timeout in seconds.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # Then there is no answer, see below.
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], limit)
        if not ready:
            raise WorkerError(Verdict.SLOW, f"it took more than {limit:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise WorkerError(Verdict.CRASHED, f"its process ended with status {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise WorkerError(Verdict.FAILED, answer["error"])
        return answer

    def close(self) -> None:
        """Terminate the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def rows(keys: Sequence[Key], *, limits: Limits, torchax: str | None, log: Path) -> Iterator[Row]:
    """Measure the rows with these keys.

    `torchax` is the Python interpreter of an environment with torchax. If it is None, skip the
    rows of the program `torchax`.
    """
    for (model, kind), group in groupby(keys, key=lambda key: (key.model, key.kind)):
        programs = [key.program for key in group if key.program != "torchax" or torchax]
        pythons = {"torchax": torchax or ""}
        with tempfile.TemporaryDirectory(prefix="models.") as scratch:
            commands = {
                program: [
                    pythons.get(program, sys.executable),
                    "-m",
                    "benchmarks.models.worker",
                    str(Key(model, kind, program)),
                ]
                for program in (BASE, *programs)
            }
            yield from group_rows(model, kind, commands, programs, limits, log, Path(scratch))


def group_rows(
    model: str,
    kind: str,
    commands: Mapping[str, Sequence[str]],
    programs: Sequence[str],
    limits: Limits,
    log: Path,
    scratch: Path,
) -> Iterator[Row]:
    """Measure a model in several programs, each in alternation with the same torch process."""
    expected = {"prepare": str(scratch / "expected.pt")}
    base = Worker(commands[BASE], log=log, scratch=scratch / BASE)
    try:
        try:
            start = base.ask(expected, limit=limits.limit)
        except WorkerError as error:
            for program in programs:
                cause = f"torch on the CPU: {error.cause}"
                yield Row(
                    model=model, kind=kind, program=program, verdict=Verdict.BROKEN, cause=cause
                )
            return
        for program in programs:
            key = Key(model, kind, program)
            if program == BASE:
                yield _measured(key, start, base, base, limits)
                continue
            worker = Worker(commands[program], log=log, scratch=scratch / program)
            try:
                yield _measured(key, worker.ask(expected, limit=limits.limit), worker, base, limits)
            except WorkerError as error:
                yield _row(key, error.verdict, error.cause)
            finally:
                worker.close()
    finally:
        base.close()


def _measured(
    key: Key, start: Mapping[str, Any], worker: Worker, base: Worker, limits: Limits
) -> Row:
    if start["difference"]:
        return _row(key, Verdict.DIFFERS, start["difference"])
    request = {"measure": limits.seconds}
    answers, ratios = [], []
    for number in range(limits.rounds):
        order = (worker,) if worker is base else (base, worker)
        both = {
            each: each.ask(request, limit=limits.limit)
            for each in (order if number % 2 else reversed(order))
        }
        answers.append(both[worker])
        ratios.append(both[worker]["cpu"] / both[base]["cpu"])
    return _row(
        key,
        Verdict.PASSED,
        cpu_seconds=statistics.median(answer["cpu"] for answer in answers),
        wall_seconds=statistics.median(answer["wall"] for answer in answers),
        ratio=statistics.median(ratios),
        start_cpu=start["cpu"],
        start_wall=start["wall"],
        rounds=limits.rounds,
    )


def _row(key: Key, verdict: Verdict, cause: str = "", **numbers: float) -> Row:
    return Row(
        model=key.model,
        kind=key.kind,
        program=key.program,
        verdict=verdict,
        cause=cause,
        load=round(os.getloadavg()[0], 1),
        **{name: float(f"{value:.4g}") for name, value in numbers.items()},
    )


def _environment(scratch: Path) -> dict[str, str]:
    """Return a worker's environment variables, with compile caches disabled or empty."""
    return {
        **environment(1),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(scratch),
        "TORCH_TPU_COMPILE_CACHE": "",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
