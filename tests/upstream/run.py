# SPDX-License-Identifier: Apache-2.0
"""Run torch's modules and optimizers on tpu, and compare the results with the CPU's.

    python -m tests.upstream.run modules --names 'nn.Conv*,nn.LSTM' --dtype float32 --samples 3

Prints failures and totals. The exit status is 0 if every outcome agrees with exceptions.json. A
later run with the same --results FILE skips rows that have a result in it.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.upstream import configurations, modules, optimizers
from tests.upstream.exceptions import load
from tests.upstream.row import Outcome, Result, Row, Table
from tests.upstream.sweep import Sweep

_TABLES = {
    Table.MODULES: modules,
    Table.OPTIMIZERS: optimizers,
    Table.CONFIGURATIONS: configurations,
}


def main(argv: Sequence[str]) -> int:
    options = _parse(argv)
    tables = [Table(options.table)] if options.table != "all" else list(Table)
    known = load()
    chosen = [row for table in tables for row in _TABLES[table].rows() if _is_chosen(row, options)]
    if not chosen:
        print(
            f"run: no row of {options.table} matches --names and --dtype. See --list",
            file=sys.stderr,
        )
        return 1
    if options.list:
        print("\n".join(str(row) for row in chosen))
        return 0
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        cache = os.environ.get("TORCH_TPU_COMPILE_CACHE", folder)
        sweep = Sweep(judge, options.samples, cache, options.results, options.again)
        for result in sweep(chosen):
            results.append(result)
            if options.verbose or result.outcome is not Outcome.PASSED:
                line = f"{result.row} {result.outcome.value} {result.message}"
                print(line.rstrip(), flush=True)
    for table in tables:
        for line in _sums(table, [r for r in results if r.row.table is table]):
            print(line)
    print(f"{sum(result.seconds for result in results):,.0f} s of CPU time")
    surprises = known.surprises(results)
    for surprise in surprises:
        print(f"run: {surprise}", file=sys.stderr)
    return 1 if surprises else 0


def judge(row: Row, samples: int) -> Result:
    """Test a row (see row.py) of any table on its first samples."""
    return _TABLES[row.table].run(row, samples=samples)


def _is_chosen(row: Row, options: argparse.Namespace) -> bool:
    if options.dtype and str(row.dtype).removeprefix("torch.") not in options.dtype.split(","):
        return False
    return any(fnmatch.fnmatchcase(row.name, name) for name in options.names.split(","))


def _sums(table: Table, results: Sequence[Result]) -> list[str]:
    """Return a line such as `modules: 268 of 270 rows pass (1,800 samples)`, and one per dtype."""
    ran = [result for result in results if result.outcome is not Outcome.EMPTY]
    if not ran:
        return []
    lines = []
    by_dtype = collections.defaultdict(list)
    for result in ran:
        by_dtype[str(result.row.dtype).removeprefix("torch.")].append(result)
    for name, group in ((table.value, ran), *sorted(by_dtype.items())):
        passed = sum(result.outcome is Outcome.PASSED for result in group)
        samples = sum(result.samples for result in group)
        indent = "" if name == table.value else "  "
        lines.append(f"{indent}{name}: {passed} of {len(group)} rows pass ({samples:,} samples)")
    return lines


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["all", *(table.value for table in Table)])
    parser.add_argument("--names", default="*", help="names or patterns, with commas; default: all")
    parser.add_argument("--dtype", default="", help="dtypes, with commas; default: all declared")
    parser.add_argument("--samples", type=int, default=10**6, help="number per row; default: all")
    parser.add_argument("--results", type=Path, help="results file; rows in it do not run again")
    parser.add_argument("--again", action="store_true", help="run rows that did not pass again")
    parser.add_argument("--verbose", action="store_true", help="also show rows that pass")
    parser.add_argument("--list", action="store_true", help="show the rows only")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
