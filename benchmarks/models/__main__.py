# SPDX-License-Identifier: Apache-2.0
"""Compare how fast programs, such as torch and torchax, run libraries' models.

The results file is updated after each row.

    python -m benchmarks.models --json=FILE                     all rows that are not in FILE
    python -m benchmarks.models --json=FILE 'timm/*:train'      only those that match the pattern
    python -m benchmarks.models --json=FILE --again 'timm/*'    even if FILE already has them
    python -m benchmarks.models --list                          print the names of the rows

A pattern is LIBRARY/MODEL, LIBRARY/MODEL:KIND or LIBRARY/MODEL:KIND:PROGRAM.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from benchmarks.models import model, row
from benchmarks.models.measure import Limits, rows
from benchmarks.models.model import Key
from benchmarks.models.zoo import MODELS


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    known = {each.key: each for each in row.read(options.json)} if options.json else {}
    keys = list(chosen(options.patterns, () if options.again else known))
    if options.patterns and not list(chosen(options.patterns)):
        print(f"models: no row matches {' '.join(options.patterns)}. Try --list", file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(map(str, keys)))
        return 0
    limits = Limits(options.rounds, options.seconds, options.limit)
    for each in rows(keys, limits=limits, torchax=options.torchax, log=options.log):
        known[each.key] = each
        ratio = "" if each.ratio is None else f" {each.ratio:.2f}"
        print(f"{each.key} {each.verdict}{ratio} {each.cause}", flush=True)
        if options.json:
            row.write(options.json, known.values())
    return 0


def chosen(patterns: Sequence[str], known: Container[Key] = ()) -> Iterator[Key]:
    """Yield the keys that match a pattern (by default, all keys) and are not in `known`."""
    for key in model.keys(MODELS):
        if (not patterns or key.matches(patterns)) and key not in known:
            yield key


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--json", type=Path, help="the file of results")
    parser.add_argument("--again", action="store_true", help="also measure rows that it has")
    parser.add_argument("--list", action="store_true", help="measure nothing")
    parser.add_argument(
        "--torchax", help="python of an environment with torchax; without it, its rows are skipped"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="duration of each program in each round"
    )
    parser.add_argument(
        "--limit", type=float, default=600, help="seconds that a program may take to get ready"
    )
    parser.add_argument(
        "--log", type=Path, default=Path(os.devnull), help="a file for the output of the programs"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
