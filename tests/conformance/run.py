# SPDX-License-Identifier: Apache-2.0
"""Compare results on the `tpu` device with the CPU's, for the sample inputs in torch's op_db.

    python -m tests.conformance.run --ops add,mul --dtype float32 --samples 5
    python -m tests.conformance.run --rows outcomes.jsonl --samples all --update     # takes hours

Operators have the names that torch's op_db uses (`linalg.svd`, `nn.functional.conv2d`,
`div.floor_rounding`); `fft.*` matches all names with that prefix. Exit status 0: every outcome
matches the golden files. 1: an outcome differs or, with --update, a failure has no entry in
exceptions.json.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance import exceptions, golden, page
from tests.conformance.rows import CHECKS, DTYPES, Row
from tests.conformance.sweep import Task, sweep, tasks


def main(argv: Sequence[str]) -> int:
    options = _parse(argv)
    warnings.filterwarnings("ignore")
    try:
        selected = tasks(
            options.ops.split(","),
            options.dtype.split(","),
            options.check.split(","),
            options.shard,
        )
    except ValueError as unknown:
        print(f"run: {unknown}", file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(dict.fromkeys(task.op for task in selected)))
        return 0
    results = list(_shown(selected, options))
    print(page.summary(results))
    faults = _updated(results) if options.update else _surprises(results)
    for fault in faults:
        print(f"run: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _shown(selected: Sequence[Task], options: argparse.Namespace) -> Iterator[Row]:
    last = time.monotonic()
    for row in sweep(
        selected,
        samples=options.samples,
        seconds=options.seconds,
        file=options.rows,
        again=options.again,
    ):
        now = time.monotonic()
        if options.verbose:
            print(f"{row} ({now - last:.1f} s)", flush=True)
        elif row.counts and not row.good:
            print(row, flush=True)
        last = now
        yield row


def _surprises(results: Sequence[Row]) -> list[str]:
    known = golden.read()
    return [fault for row in results if (fault := golden.surprise(row, known))]


def _updated(results: Sequence[Row]) -> list[str]:
    """Update the golden files and TABLE.md.

    Return an error for each failure that exceptions.json does not list, and for each unused entry.
    """
    # Under `bazel run`, the golden files next to __file__ are copies. Write to the workspace.
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    folder = Path(root, "tests/conformance") if root else Path(__file__).parent
    golden.write(results, folder / "golden")
    rows = golden.read(folder / "golden")
    reasons = exceptions.load(folder / "exceptions.json")
    page.write(rows, reasons, folder / "TABLE.md")
    return reasons.faults(rows.values())


def _count(text: str) -> float:
    return math.inf if text == "all" else int(text)


def _shard(text: str) -> tuple[int, int]:
    which, _, number = text.partition("/")
    return int(which) - 1, int(number)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="*", help="names or patterns, with commas; default: all")
    parser.add_argument("--dtype", default=",".join(DTYPES), help="dtypes, with commas")
    parser.add_argument("--check", default=",".join(CHECKS), help="checks, with commas")
    parser.add_argument(
        "--samples", type=_count, help="number per row, or `all`; default: the gate's"
    )
    parser.add_argument("--seconds", type=float, default=60, help="for each sample")
    parser.add_argument("--shard", type=_shard, default=(0, 1), help="i/n: part i of n, from 1")
    parser.add_argument("--rows", type=Path, help="append outcomes; rows in the file are not run")
    parser.add_argument("--again", action="store_true", help="run rows that did not pass again")
    parser.add_argument("--update", action="store_true", help="write the golden and TABLE.md")
    parser.add_argument("--verbose", action="store_true", help="also show rows that passed")
    parser.add_argument("--list", action="store_true", help="show the names of --ops only")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
