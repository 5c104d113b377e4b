# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of adding packages, and of a program that contains many; see README.md."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from pathlib import Path

from benchmarks import results
from benchmarks.packages import measure
from benchmarks.packages.workspace import CommandFailed, Workspace
from benchmarks.results import Figure

_ROOT = Path(__file__).resolve().parents[2]
# Small packages that no lock contains and that require no other package.
_PACKAGES = ("humanize", "inflection", "tabulate")


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    print(f"load {os.getloadavg()[0]:.1f}; the output is in {options.work}/commands.log")
    figures: list[Figure] = []
    try:
        workspace = Workspace(options.source, options.work, disk_cache=options.disk_cache)
        with closing(workspace):
            for part in (
                measure.builds(workspace, cold=options.disk_cache is None),
                measure.trainings(workspace, options.rounds),
                measure.additions(workspace, options.packages),
            ):
                for figure in part:
                    print(_line(figure), flush=True)
                    figures.append(figure)
    except (CommandFailed, OSError) as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    results.write(options.work / "packages.json", "packages", figures)
    return 0


def _line(figure: Figure) -> str:
    value = (
        f"{figure.wall_seconds} s" if figure.number is None else f"{figure.number} {figure.unit}"
    )
    return f"| {figure.case} | {figure.subject} | {value} |"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3.11 -m benchmarks.packages", description=__doc__)
    parser.add_argument(
        "--work", type=Path, required=True, help="directory for a clone and its outputs (12 GB)"
    )
    parser.add_argument(
        "--source", type=Path, default=_ROOT, help="the workspace; its last commit is what is built"
    )
    parser.add_argument(
        "--disk_cache", type=Path, help="an existing disk cache; leave out the first row"
    )
    parser.add_argument("--packages", nargs="*", default=_PACKAGES, help="packages to add")
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs on each device after a first one"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
