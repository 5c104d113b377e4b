# SPDX-License-Identifier: Apache-2.0
"""Measure the size and start-up cost of PARs with torch's CUDA wheel; see README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import results
from benchmarks.cuda_programs import measure


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    try:
        with tempfile.TemporaryDirectory(dir=options.work) as scratch:
            work = Path(scratch)
            figures = []
            for name, par in options.programs:
                figures += measure.starts(name, par, work, options.rounds)
            for name, par in options.second:
                figures += measure.shared(options.programs[0], (name, par), work)
    except (measure.RunFailed, OSError) as error:
        print(f"cuda_programs: {error}", file=sys.stderr)
        return 1
    for figure in figures:
        value = figure.number if figure.number is not None else figure.cpu_seconds
        unit = figure.unit or f"s of CPU, {figure.wall_seconds} s of wall time"
        print(f"| {figure.case} | {figure.subject} | {value} {unit} |")
    results.write(options.json, "cuda_programs", figures)
    return 0


def _program(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=FILE of a packed program")
    return name, Path(path)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.cuda_programs", description=__doc__
    )
    parser.add_argument("programs", nargs="+", type=_program, metavar="NAME=FILE")
    parser.add_argument(
        "--second",
        action="append",
        default=[],
        type=_program,
        metavar="NAME=FILE",
        help="a program that starts with the cache of the first one",
    )
    parser.add_argument("--work", type=Path, required=True, help="a directory with 10 GB of space")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, required=True, help="the file for the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
