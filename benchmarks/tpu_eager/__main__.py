# SPDX-License-Identifier: Apache-2.0
"""Compare the `tpu` device, on a CPU, with torch, JAX and torchax; see README.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import results
from benchmarks.tpu_eager import first_steps, measure, report
from benchmarks.tpu_eager.cases import CASES, PEERS


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    peers = [peer for peer in options.peers if peer != "torchax" or options.torchax]
    pythons = {"torchax": options.torchax} if options.torchax else {}
    rows_of_all: list[results.Figure] = []
    runs = options.processes * options.rounds
    for threads in options.threads:
        for name, figures in measure.interleaved(
            options.cases,
            peers,
            pythons=pythons,
            threads=threads,
            processes=options.processes,
            rounds=options.rounds,
            seconds=options.seconds,
        ):
            rows_of_all += report.results(name, figures, threads=threads, runs=runs)
            print(report.markdown(name, figures, threads=threads), flush=True)
    threads = options.threads[0]
    for case in options.first_steps:
        rows = [
            first_steps.compare(peer, case, threads=threads)
            for peer in ("strict", "fused", "compile", "inductor")
            if peer in peers
        ]
        rows_of_all += report.first_step_results(case, rows, threads=threads)
        print(report.first_steps(rows, case=case, threads=threads), flush=True)
    if options.json:
        results.write(options.json, "tpu_eager", rows_of_all)
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.tpu_eager", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--torchax", help="python of an environment with torchax; without it, the peer is absent"
    )
    parser.add_argument("--threads", type=_threads, nargs="+", default=[1, 2])
    parser.add_argument("--processes", type=int, default=3, help="number of processes of each peer")
    parser.add_argument("--rounds", type=int, default=5, help="with each process")
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="duration of each peer in each round"
    )
    trained = [name for name, case in CASES.items() if case.kind == "train"]
    parser.add_argument(
        "--first-steps",
        choices=trained,
        nargs="*",
        default=["mlp", "gpt"],
        help="cases for the start of new processes; without values, none",
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args(arguments)


def _threads(text: str) -> int:
    most = len(os.sched_getaffinity(0))
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"found {text}, this machine has 1 to {most}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
