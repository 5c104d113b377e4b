# SPDX-License-Identifier: Apache-2.0
"""Compare the `tpu` device with stock torch on changing tensor sizes; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.size_streams.worker import PEERS, STREAMS
from benchmarks.tpu_eager.measure import environment

# The number of warm-up steps. In the first steps, compilers may generate code for a single size.
_WARM = 16
# The number of steps in a peer's turn.
_TURN = 8
_BASELINES = {"compile": "inductor"}


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    peers = [peer for peer in options.peers if peer != "torchax" or options.torchax]
    figures = []
    for stream in options.streams:
        costs = _measure(stream, peers, options.steps, options.torchax)
        print(f"\n{stream}: {options.steps} steps after {_WARM} for warm-up, one thread\n")
        print("| peer | CPU ms per step | ratio | programs per step | first step, CPU s | note |")
        print("|---|---|---|---|---|---|")
        for peer, cost in costs.items():
            baseline = costs.get(_BASELINES.get(peer, "torch"))
            ratio = cost.mean / baseline.mean if baseline else None
            shown = "" if ratio is None else f"{ratio:.2f}"
            print(
                f"| {peer} | {cost.mean * 1e3:.1f} | {shown} | {cost.programs:.1f} "
                f"| {cost.first:.2f} | {_note(cost, baseline)} |",
                flush=True,
            )
            figures.append(
                results.Figure(
                    case=f"{stream}, the first step of the process",
                    subject=peer,
                    threads=1,
                    runs=1,
                    cpu_seconds=cost.first,
                    wall_seconds=cost.first_wall,
                )
            )
            figures.append(
                results.Figure(
                    case=f"{stream}, a step with a new size",
                    subject=peer,
                    peer=_BASELINES.get(peer, "torch") if baseline else None,
                    threads=1,
                    runs=options.steps,
                    cpu_seconds=cost.mean,
                    cpu_ratio=ratio,
                    number=cost.programs,
                    unit="programs per step",
                    note=_note(cost, baseline),
                )
            )
    if options.json:
        results.write(options.json, "size_streams", figures)
    return 0


@dataclass(frozen=True)
class _Cost:
    """The CPU seconds of the first step, and the mean and median of those after the warm-up.

    `first_wall` is the wall time of the first step. `programs` is the number of programs that were
    compiled per step after the warm-up.
    """

    first: float
    first_wall: float
    mean: float
    median: float
    programs: float


def _note(cost: _Cost, baseline: _Cost | None) -> str:
    """Return what the median adds: a step that compiles a program has a large share of the mean."""
    if baseline is None:
        return "mean"
    return f"mean; the median step is {cost.median / baseline.median:.2f} of the peer's"


def _measure(
    stream: str, peers: Sequence[str], steps: int, torchax: str | None
) -> dict[str, _Cost]:
    """Run the steps of a stream, with all peers in turn. Each peer is a process.

    In a turn, a peer performs several steps, so that the processor's caches are as warm as in a
    loop: between its turns, other peers may run for seconds.
    """
    workers: dict[str, subprocess.Popen[str]] = {}
    try:
        for peer in peers:
            workers[peer] = subprocess.Popen(
                [
                    torchax if peer == "torchax" and torchax else sys.executable,
                    *("-m", "benchmarks.size_streams.worker", peer, stream),
                ],
                env=environment(1),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        answers: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
        for begin in range(0, _WARM + steps, _TURN):
            count = min(_TURN, _WARM + steps - begin)
            for peer, worker in workers.items():
                answers[peer] += [_step(peer, worker) for _ in range(count)]
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    return {
        peer: _Cost(
            answers[peer][0]["cpu"],
            answers[peer][0]["wall"],
            statistics.fmean(answer["cpu"] for answer in answers[peer][_WARM:]),
            statistics.median(answer["cpu"] for answer in answers[peer][_WARM:]),
            (answers[peer][-1]["programs"] - answers[peer][_WARM - 1]["programs"]) / steps,
        )
        for peer in peers
    }


def _step(peer: str, worker: subprocess.Popen[str]) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("step\n")
    worker.stdin.flush()
    while line := worker.stdout.readline():
        if line.startswith("{"):
            answer: dict[str, Any] = json.loads(line)
            return answer
    raise SystemExit(f"size_streams: the process of {peer} ended: status {worker.wait()}")


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.size_streams", description=__doc__)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=_default_peers())
    parser.add_argument("--torchax", help="a Python interpreter with torch, JAX and torchax")
    parser.add_argument("--steps", type=int, default=32, help="steps after the warm-up")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args(arguments)


def _default_peers() -> list[str]:
    """Return all programs to compare, except Inductor if there is no C++ compiler."""
    has_compiler = shutil.which(os.environ.get("CXX", "g++")) is not None
    return [peer for peer in PEERS if peer != "inductor" or has_compiler]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
