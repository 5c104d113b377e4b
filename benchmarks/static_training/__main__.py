# SPDX-License-Identifier: Apache-2.0
"""Compare the training speed of the static build with that of the release wheel; see README.md."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks import results
from benchmarks.par_startup import peers as startup
from benchmarks.par_startup import wheels
from benchmarks.static_training import measure, peers, report
from benchmarks.static_training.cases import CASES


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    shop = startup.Workshop(
        options.work,
        python=options.python,
        requirements=wheels.requirements(),
        index=wheels.index(),
    )
    try:
        torches = _torches(shop, options)
        figures, made_of = _measure(torches, options)
    except (startup.BuildError, measure.RunError, OSError) as error:
        print(f"static_training: {error}", file=sys.stderr)
        return 1
    print(report.makes(made_of), flush=True)
    results.write(
        shop.directory / "training.json", "static_training", figures, details={"made_of": made_of}
    )
    return 0


def _torches(shop: startup.Workshop, options: argparse.Namespace) -> list[measure.Peer]:
    static = peers.par(shop, options.static_par)
    data = peers.packed_data(static, shop.directory / "digits.csv.gz")
    release = peers.wheel(startup.venv(shop), data)
    variants = [release]
    if options.explain:
        variants += peers.lesser(release)
    if options.venv_release:
        variants.append(peers.wheel(startup.venv_of(shop, options.venv_release), data))
    return [*variants, static]


def _measure(
    torches: list[measure.Peer], options: argparse.Namespace
) -> tuple[list[results.Figure], Mapping[str, Mapping[str, Any]]]:
    results_of_all: list[results.Figure] = []
    made_of: dict[str, Mapping[str, Any]] = {}
    for threads in options.threads:
        for case in options.cases:
            print(f"measuring {case}, threads: {threads} ...", flush=True)
            samples = measure.interleaved(case, torches, threads=threads, rounds=options.rounds)
            figures = measure.summarize(samples)
            results_of_all += report.results(CASES[case], figures, threads=threads)
            made_of.update({peer: taken[-1].made_of for peer, taken in samples.items()})
            print("\n" + report.markdown(CASES[case], figures, threads=threads), flush=True)
    return results_of_all, made_of


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.static_training", description=__doc__
    )
    parser.add_argument(
        "--static-par",
        type=pathlib.Path,
        required=True,
        help="bazel-bin/benchmarks/static_training/program.par, built with --config=static",
    )
    parser.add_argument(
        "--work", type=pathlib.Path, required=True, help="directory for the venvs (about 1.5 GB)"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the venvs (default: this one)"
    )
    parser.add_argument(
        "--venv-release",
        nargs="?",
        const=wheels.compiled_release(),
        metavar="RELEASE",
        help="also a venv with torch==RELEASE; without a value, what --config=static compiles",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also the wheel without oneDNN, with kernels for AVX2 alone, and with neither",
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", type=_threads, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args(arguments)


def _threads(text: str) -> int:
    most = len(os.sched_getaffinity(0))
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"found {text}, this machine has 1 to {most}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
