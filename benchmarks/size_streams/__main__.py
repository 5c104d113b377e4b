# SPDX-License-Identifier: Apache-2.0
"""Compare the `tpu` device with stock torch on changing tensor sizes; see README.md."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.size_streams.worker import PEERS, STREAMS
from benchmarks.tpu_eager.measure import environment

_BASELINES = {"compile": "inductor"}


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    figures = []
    for stream in options.streams:
        costs = {peer: _run(peer, stream, options.steps) for peer in options.peers}
        print(f"\n{stream}: {options.steps} steps after 16 for warm-up, one thread\n")
        print("| peer | CPU ms per step | ratio | programs per step | first step, CPU s |")
        print("|---|---|---|---|---|")
        for peer, cost in costs.items():
            baseline = costs.get(_BASELINES.get(peer, "torch"))
            ratio = cost["mean"] / baseline["mean"] if baseline else None
            shown = "" if ratio is None else f"{ratio:.2f}"
            print(
                f"| {peer} | {cost['mean'] * 1e3:.1f} | {shown} | {cost['programs']:.1f} "
                f"| {cost['first']:.1f} |",
                flush=True,
            )
            figures.append(
                results.Figure(
                    case=f"{stream}, a step with a new size",
                    subject=peer,
                    peer=_BASELINES.get(peer, "torch") if baseline else None,
                    threads=1,
                    runs=options.steps,
                    cpu_seconds=cost["mean"],
                    cpu_ratio=ratio,
                    number=cost["programs"],
                    unit="programs per step",
                )
            )
    if options.json:
        results.write(options.json, "size_streams", figures)
    return 0


def _run(peer: str, stream: str, steps: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.size_streams.worker", peer, stream, str(steps)],
        env=environment(1),
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.size_streams", description=__doc__)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=_default_peers())
    parser.add_argument("--steps", type=int, default=32, help="steps after the warm-up")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args(arguments)


def _default_peers() -> list[str]:
    """Return all programs to compare, except Inductor if there is no C++ compiler."""
    has_compiler = shutil.which(os.environ.get("CXX", "g++")) is not None
    return [peer for peer in PEERS if peer != "inductor" or has_compiler]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
