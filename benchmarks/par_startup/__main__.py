# SPDX-License-Identifier: Apache-2.0
"""Compare the start-up of a PAR with that of programs packed by other tools; see README.md."""

from __future__ import annotations

import argparse
import pathlib
import sys

from benchmarks import results
from benchmarks.par_startup import measure, peers, report, wheels


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    shop = peers.Workshop(
        options.work,
        python=options.python,
        requirements=wheels.requirements(),
        index=wheels.index(),
    )
    try:
        packed = [peers.BUILDERS[name](shop) for name in options.peers]
        further_peers = _further_peers(shop, options)
        if options.build_only:
            return 0
        interpreters = [peer for peer in [*packed, *further_peers] if peer.interpreter]
        releases = {peer.name: peers.torch_release(peer) for peer in interpreters}
        figures = _measure([*packed, *further_peers], shop, options)
        if interpreters and options.idle_rounds:
            print("measuring starts without torch ...", flush=True)
            bare = [peers.idle(peer) for peer in interpreters]
            idle = measure.interleaved(bare, rounds=options.idle_rounds)
            figures += _summarize("Start without torch", idle, places=3)
        if interpreters and options.start_rounds:
            figures += _measure_starts(interpreters, options.start_rounds)
    except (peers.BuildError, measure.StartError, OSError) as error:
        print(f"par_startup: {error}", file=sys.stderr)
        return 1
    if releases:
        print("torch: " + ", ".join(f"{release} in {name}" for name, release in releases.items()))
    results.write(
        options.work / "figures.json", "par_startup", figures, details={"releases": releases}
    )
    return 0


def _further_peers(shop: peers.Workshop, options: argparse.Namespace) -> list[measure.Peer]:
    """Return the peers that the options request: a venv with another torch release, and PARs."""
    further_peers = []
    if options.venv_release:
        further_peers.append(peers.venv_of(shop, options.venv_release))
    if options.par:
        further_peers.append(peers.par(shop, options.par))
    if options.static_par:
        further_peers.append(peers.par(shop, options.static_par, "static PAR"))
    return further_peers


def _measure(
    contenders: list[measure.Peer], shop: peers.Workshop, options: argparse.Namespace
) -> list[results.Figure]:
    print("measuring warm starts ...", flush=True)
    # Empty and refill all caches, because an interrupted run may have left incomplete ones.
    measure.interleaved(contenders, rounds=1, empty_caches=True)
    warm = measure.interleaved(contenders, rounds=options.rounds)
    figures = _summarize("Warm start", warm)
    first = [peer for peer in contenders if peer.caches]
    if first and options.first_rounds:
        print("measuring first starts ...", flush=True)
        if any(peer.name == "venv" for peer in contenders):
            first.append(peers.copy_of_natives(shop))
        cold = measure.interleaved(first, rounds=options.first_rounds, empty_caches=True)
        figures += _summarize("First start, empty cache", cold)
    return figures


def _measure_starts(interpreters: list[measure.Peer], rounds: int) -> list[results.Figure]:
    """Measure how the program starts with `-c`, as a module, and in child processes."""
    print("measuring starts through doors and as children ...", flush=True)
    base = interpreters[0].name
    tables = {}
    for kind in peers.STARTS:
        contenders = [peers.start(peer, kind) for peer in interpreters]
        samples = measure.interleaved(contenders, rounds=rounds)
        tables[kind] = measure.summarize(samples, base=base)
    print("\n" + report.starts(tables, base=base), flush=True)
    return [
        figure
        for kind, table in tables.items()
        for figure in report.figures(f"Start: {kind}", table, base=base)
    ]


def _summarize(
    title: str, samples: dict[str, list[measure.Sample]], *, places: int = 2
) -> list[results.Figure]:
    base = next(iter(samples))
    table = measure.summarize(samples, base=base)
    print("\n" + report.markdown(title, table, base=base, places=places), flush=True)
    return report.figures(title, table, base=base)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.par_startup", description=__doc__)
    parser.add_argument(
        "--par", type=pathlib.Path, help="bazel-bin/benchmarks/par_startup/program.par"
    )
    parser.add_argument(
        "--static-par", type=pathlib.Path, help="the same, of a build with --config=static"
    )
    parser.add_argument(
        "--work", type=pathlib.Path, required=True, help="directory for the peers (about 8 GB)"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the peers (default: this one)"
    )
    parser.add_argument("--rounds", type=_positive, default=11, help="of warm starts")
    parser.add_argument(
        "--first-rounds", type=int, default=3, help="number of first starts; 0: none"
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=peers.BUILDERS,
        default=list(peers.BUILDERS),
        help="peers to compare with; ratios are to the first",
    )
    parser.add_argument(
        "--venv-release",
        nargs="?",
        const=wheels.compiled_release(),
        metavar="RELEASE",
        help="also a venv with torch==RELEASE; without a value, what --config=static compiles",
    )
    parser.add_argument(
        "--idle-rounds", type=int, default=11, help="number of starts without torch; 0: none"
    )
    parser.add_argument(
        "--start-rounds",
        type=int,
        default=11,
        help="number of starts through doors and as children; 0: none",
    )
    parser.add_argument(
        "--build-only", action="store_true", help="build the peers, measure nothing"
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"found {number}, expected 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
