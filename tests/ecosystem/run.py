# SPDX-License-Identifier: Apache-2.0
"""Run cases, each on the CPU and on tpu, and write results.json and TABLE.md.

    python -m tests.ecosystem.run                            all cases without a current result
    python -m tests.ecosystem.run 'timm/*' 'torchvision/*'   rerun cases by name
    python -m tests.ecosystem.run --again failed,differs     rerun cases by verdict

Run it with the Python interpreter of the environment that `install.py` created. The exit status is
1 if the verdict of a case differs from that in results.json before the run, or if a new case did
not pass.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.ecosystem import locked, page, results, source
from tests.ecosystem.case import ALL, Case, table
from tests.ecosystem.device_check import DeviceError
from tests.ecosystem.results import Row, Verdict
from tests.ecosystem.supervisor import Outcome, check_device, outcomes


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help="patterns of LIBRARY/CASE:MODE")
    parser.add_argument("--modes", default=",".join(ALL), help="only these modes")
    parser.add_argument("--again", default="", help="also run cases with these verdicts")
    parser.add_argument("--seconds", type=float, default=300, help="the limit for a case and mode")
    parser.add_argument("--batch", type=int, default=30, help="cases and modes in one process")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="output of the cases")
    parser.add_argument(
        "--keep", action="store_true", help="do not write results.json and TABLE.md"
    )
    flags = parser.parse_args(argv)
    before = {row.key: row for row in results.read()} if results.FILE.exists() else {}
    again = {Verdict(name) for name in flags.again.split(",") if name}
    keys = [
        key
        for key in _chosen(flags.cases, again, before)
        if key.rpartition(":")[2] in flags.modes.split(",")
    ]
    try:
        check_device()
    except DeviceError as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    after = dict(before)
    for outcome in outcomes(keys, seconds=flags.seconds, batch=flags.batch, log=flags.log):
        row = _row(outcome)
        print(f"{row.library}/{row.case}:{row.mode} {row.verdict} {row.cause}", flush=True)
        after[row.key] = row
        if not flags.keep:
            record(row)
    changed = [
        row
        for key, row in after.items()
        if row.verdict != (before[key].verdict if key in before else Verdict.PASSED)
    ]
    for row in changed:
        print(f"changed: {row.library}/{row.case}:{row.mode} is {row.verdict}")
    return 1 if changed else 0


def record(row: Row, file: Path = results.FILE, table_file: Path = page.FILE) -> None:
    """Add or replace a row in results.json and TABLE.md. Other processes may do so concurrently."""
    with results.locked_for_writing(file):
        rows = {known.key: known for known in (results.read(file) if file.exists() else [])}
        rows[row.key] = row
        results.write(rows.values(), file)
        page.write(rows.values(), table_file)


def _row(outcome: Outcome) -> Row:
    name, _, mode = outcome.key.partition(":")
    library, _, case = name.partition("/")
    version, digest = locked.version(library), source.digest(table()[name])
    return Row(library, version, case, mode, outcome.verdict, outcome.cause, digest)


def _chosen(
    patterns: Sequence[str],
    again: set[Verdict],
    before: Mapping[tuple[str, str, str], Row],
) -> Iterator[str]:
    """Yield the keys of the selected cases: by default, those without a current result."""
    for row in table().values():
        for mode in row.modes:
            known = before.get((row.library, row.name, mode))
            if patterns or again:
                wanted = any(_matches(row, mode, pattern) for pattern in patterns)
                wanted = wanted or (known is not None and known.verdict in again)
            else:
                wanted = known is None or known.source != source.digest(row)
            if wanted:
                yield f"{row.key}:{mode}"


def _matches(row: Case, mode: str, pattern: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for name in (row.key, f"{row.key}:{mode}"))


if __name__ == "__main__":
    sys.exit(main())
