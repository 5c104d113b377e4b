# SPDX-License-Identifier: Apache-2.0
"""Compares the start of a PAR with that of other packers; see README.md."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

from benchmarks.par_startup import measure, peers, report

_PIN = pathlib.Path(__file__).parents[2] / "third_party" / "torch" / "pin.json"


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    pin = json.loads(_PIN.read_text())
    shop = peers.Workshop(
        options.work,
        python=options.python,
        requirement=f"torch=={pin['version']}",
        index=pin["wheel"]["extra_index"],
    )
    try:
        contenders = [peers.BUILDERS[name](shop) for name in options.peers]
        if options.par:
            contenders.append(peers.par(shop, options.par))
        if options.build_only:
            return 0
        tables = _measure(contenders, shop, options)
    except (peers.BuildError, measure.StartError, OSError) as error:
        print(f"par_startup: {error}", file=sys.stderr)
        return 1
    for title, table in tables.items():
        print("\n" + report.markdown(title, table, base=table[0].name))
    (options.work / "figures.json").write_text(report.as_json(dict(tables)))
    return 0


def _measure(
    contenders: list[measure.Peer], shop: peers.Workshop, options: argparse.Namespace
) -> dict[str, list[measure.Summary]]:
    print("measuring warm starts ...", flush=True)
    measure.interleaved(contenders, rounds=1)  # Fills the caches.
    warm = measure.interleaved(contenders, rounds=options.rounds)
    tables = {"Warm start": measure.summarize(warm, base=contenders[0].name)}
    first = [peer for peer in contenders if peer.caches]
    if first and options.first_rounds:
        print("measuring first starts ...", flush=True)
        first.append(peers.copy_of_natives(shop))
        cold = measure.interleaved(first, rounds=options.first_rounds, empty_caches=True)
        tables["First start, empty cache"] = measure.summarize(cold, base=first[0].name)
    return tables


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.par_startup", description=__doc__)
    parser.add_argument(
        "--par", type=pathlib.Path, help="bazel-bin/benchmarks/par_startup/program.par"
    )
    parser.add_argument(
        "--work", type=pathlib.Path, required=True, help="directory for the peers (about 8 GB)"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter of the peers (default: this one)"
    )
    parser.add_argument("--rounds", type=_positive, default=11, help="of warm starts")
    parser.add_argument("--first-rounds", type=int, default=3, help="of first starts; 0: none")
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=peers.BUILDERS,
        default=list(peers.BUILDERS),
        help="which to compare with; ratios are to the first",
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
