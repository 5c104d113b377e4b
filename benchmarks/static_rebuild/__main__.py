# SPDX-License-Identifier: Apache-2.0
"""Measure the build time of the static program after an edit or from scratch; see README.md."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks import results
from benchmarks.static_rebuild import measure, report
from benchmarks.static_rebuild.clone import BuildFailed, Clone
from benchmarks.static_rebuild.edits import EDITS, EditError

_ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    # Make SIGTERM revert the current edit and stop Bazel, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}; Bazel's output is in {options.work}/bazel.log")
    try:
        if options.cold:
            figures = _shown(measure.cold(options.source, options.work, options.bazel))
        else:
            clone = Clone(options.source, options.work, options=tuple(options.bazel))
            edits = [EDITS[name] for name in options.edits]
            with closing(clone):
                figures = _shown(measure.rebuilds(clone, edits, rounds=options.rounds))
    except (BuildFailed, EditError, OSError) as error:
        print(f"static_rebuild: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("static_rebuild: interrupted; the clone's files are as they were", file=sys.stderr)
        return 130
    name = "cold.json" if options.cold else "rebuild.json"
    results.write(
        options.work / name,
        "static_rebuild",
        report.results(figures),
        details=report.details(figures),
    )
    return 0


def _shown(figures: Iterator[measure.Figure]) -> list[measure.Figure]:
    """Print each figure as soon as it has been measured, and return all of them."""
    print(report.HEAD, flush=True)
    shown = []
    for figure in figures:
        print(report.row(figure), flush=True)
        shown.append(figure)
    return shown


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.static_rebuild", description=__doc__
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="directory for a clone and its outputs (10 GB)"
    )
    parser.add_argument(
        "--source", type=Path, default=_ROOT, help="the workspace; its last commit is what is built"
    )
    parser.add_argument("--edits", nargs="+", choices=EDITS, default=list(EDITS))
    parser.add_argument("--rounds", type=int, default=3, help="of each edit")
    parser.add_argument(
        "--cold",
        action="store_true",
        help="no edits: one build with no cache, an hour on two cores",
    )
    parser.add_argument(
        "--bazel",
        action="append",
        default=[],
        metavar="OPTION",
        help="of Bazel, as --bazel=--jobs=2",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
