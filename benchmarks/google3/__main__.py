# SPDX-License-Identifier: Apache-2.0
"""Measure the overhead of torch_google's libraries; see README.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from benchmarks import results
from benchmarks.google3 import report
from benchmarks.google3.row import Sizes, measure

# Modules of this package. In each, `rows(sizes)` returns the comparisons to measure.
SUBJECTS = ("files", "imports", "records", "rate")


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    sizes = Sizes(options.bytes, options.records, options.seconds)
    figures = []
    with tempfile.TemporaryDirectory(dir=options.work) as directory:
        for subject in options.subjects:
            for row in import_module(f"benchmarks.google3.{subject}").rows(sizes):
                figures.append(measure(row, Path(directory), rounds=options.rounds))
                print(f"{row.name}: {figures[-1].cpu_ratio:.3f}", file=sys.stderr, flush=True)
    print(report.markdown(figures))
    if options.json:
        results.write(options.json, "google3", report.results(figures, rounds=options.rounds))
    return 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.google3", description=__doc__)
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument(
        "--bytes", type=int, default=1 << 30, help="size of the tensor to save and load"
    )
    parser.add_argument("--records", type=int, default=50_000, help="that are logged")
    parser.add_argument(
        "--seconds", type=float, default=5, help="duration of logging at a steady rate"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
