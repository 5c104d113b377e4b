# SPDX-License-Identifier: Apache-2.0
"""Measure the compared programs in turn, each in a worker process, and compute medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tpu_eager.cases import CASES, Case

_ROOT = Path(__file__).resolve().parents[2]


# For each program, the responses of one worker process, one per round.
Answers = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Figure:
    """The cost of a case in one program: median seconds over all rounds of all processes.

    `ratio` compares its CPU time with that of the case's first program: the median over each
    process's rounds, and then over the processes. `lowest` and `highest` are the extremes over the
    processes, because costs differ between processes more than within one. `value` is the result of
    the third run, which must be the same in all programs. `error` says why a program has no
    figures.
    """

    peer: str
    cpu: float | None = None
    wall: float | None = None
    ratio: float | None = None
    lowest: float | None = None
    highest: float | None = None
    value: float | None = None
    error: str | None = None


class Worker:
    """A worker process that runs one program, pinned to one processor per thread."""

    def __init__(self, peer: str, *, python: str, threads: int) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.tpu_eager.worker", peer],
            env=environment(threads),
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=lambda: pin(threads),
        )

    def ask(self, case: str, seconds: float) -> dict[str, Any]:
        """Have the worker run a case for `seconds` seconds, and return its response.

        If the worker has died, return a response that contains an error.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"case": case, "seconds": seconds}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"error": f"its process ended with status {process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Close the worker's standard input, and wait until it exits."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # The process has already exited.
            self._process.stdin.close()
        self._process.wait()


def environment(threads: int) -> dict[str, str]:
    """Return the environment variables for a worker process."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
        # Let Python write bytecode, so that each module is compiled only once.
        "PYTHONDONTWRITEBYTECODE": "",
        "OMP_NUM_THREADS": str(threads),
        "TORCH_TPU_PLATFORM": "cpu",
        # Disable torch's CPU kernels, so that the tpu device runs only compiled programs, as on a
        # TPU. ../size_streams measures the device with CPU kernels.
        "TORCH_TPU_CPU_KERNELS": "0",
        "JAX_PLATFORMS": "cpu",
    }


def pin(threads: int) -> None:
    """Pin this process and its children to the last `threads` processors that it may use."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def interleaved(
    cases: Sequence[str],
    peers: Sequence[str],
    *,
    pythons: Mapping[str, str],
    threads: int,
    processes: int,
    rounds: int,
    seconds: float,
) -> Iterator[tuple[str, list[Figure]]]:
    """Run all cases in `processes` processes of each program; yield each case and its figures."""
    answers: dict[str, list[Answers]] = {name: [] for name in cases}
    for number in range(processes):
        workers = {
            peer: Worker(peer, python=pythons.get(peer, sys.executable), threads=threads)
            for peer in peers
        }
        try:
            for name in cases:
                answers[name].append(_measured_rounds(name, workers, rounds, seconds))
                if number == processes - 1:
                    yield name, summarize(CASES[name], answers[name])
        finally:
            for worker in workers.values():
                worker.close()


def _measured_rounds(
    name: str, workers: Mapping[str, Worker], rounds: int, seconds: float
) -> Answers:
    """Run a case once per round in each worker.

    Rotate the order of the workers, so that machine load affects all equally.
    """
    taking = [peer for peer in CASES[name].peers if peer in workers]
    answers: dict[str, list[dict[str, Any]]] = {peer: [] for peer in taking}
    for number in range(-1, rounds):  # Round -1 is a warm-up.
        first = number % len(taking)
        for peer in (*taking[first:], *taking[:first]):
            if not any("error" in answer for answer in answers[peer]):
                answer = workers[peer].ask(name, seconds)
                if number >= 0 or "error" in answer:
                    answers[peer].append(answer)
    return answers


def summarize(case: Case, processes: Sequence[Answers]) -> list[Figure]:
    """Return a figure for each program of a case, with the error "absent" if it was not run."""
    return [_figure(peer, case.peers[0], processes) for peer in case.peers]


def _figure(peer: str, base: str, processes: Sequence[Answers]) -> Figure:
    results = [answer for answers in processes for answer in answers.get(peer, [])]
    if not results:
        return Figure(peer, error="absent")
    errors = [answer["error"] for answer in results if "error" in answer]
    if errors:
        return Figure(peer, error=errors[0])
    ratios = []
    for answers in processes:
        rounds = zip(answers[peer], answers.get(base, []), strict=False)
        within = [mine["cpu"] / its["cpu"] for mine, its in rounds if "cpu" in its]
        if within:
            ratios.append(statistics.median(within))
    return Figure(
        peer,
        statistics.median(answer["cpu"] for answer in results),
        statistics.median(answer["wall"] for answer in results),
        statistics.median(ratios) if ratios else None,
        min(ratios, default=None),
        max(ratios, default=None),
        results[-1]["value"],
    )
