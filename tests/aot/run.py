# SPDX-License-Identifier: Apache-2.0
"""Compile the device's programs for TPUs without a TPU, from descriptions of the chips.

    python -m tests.aot.run --work /tmp/aot --subjects 'add,linalg.*' --dtype float32
    python -m tests.aot.run --work /tmp/aot --update          # everything; takes hours, and resumes

Subjects are names from torch's op_db and module_db, or from the tables in steps.py and kernels.py.
Exit status 0: every outcome matches the golden files. 1: an outcome differs or, with --update, a
failure has no entry in exceptions.json.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.aot import golden, page
from tests.aot.chips import PLATFORMS
from tests.aot.collecting import collect
from tests.aot.compiling import SECONDS, STEP_SECONDS, compile_programs
from tests.aot.rows import CHECKS, DTYPES, Case, Compilation, Row, Sample, judge
from tests.aot.store import Store
from tests.conformance import exceptions

_T = TypeVar("_T")
_PROGRESS = 30  # seconds between lines of progress


def main(argv: Sequence[str]) -> int:
    options = _parse(argv)
    chips = options.chip.split(",")
    try:
        if unknown := sorted(set(chips) - set(PLATFORMS)):
            raise ValueError(f"no chip {', '.join(unknown)}. Use {', '.join(PLATFORMS)}")
        selected = [] if options.finished else _selected(options)
    except ValueError as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(map(str, selected)))
        return 0
    rows: list[Row] = []
    for platform in dict.fromkeys(map(PLATFORMS.__getitem__, chips)):
        store = Store(options.work / platform)
        if options.finished:
            collected = store.cases()
        else:
            cases = [case for case in selected if platform == "tpu" or case.check != "kernel"]
            results = collect(cases, store, platform=platform, samples=options.samples)
            collected = dict(_shown(results, f"collected for {platform}", len(cases)))
        for chip in chips:
            if PLATFORMS[chip] == platform:
                compiled = _compiled(collected, store, chip, only_known=options.finished)
                rows += _rows(collected, chip, compiled)
    for row in rows:
        if row.counts and not row.good:
            print(row)
    print(page.summary(rows))
    faults = _updated(rows) if options.update else _surprises(rows)
    for fault in faults:
        print(f"run: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _selected(options: argparse.Namespace) -> list[Case]:
    # Import this module lazily, because it loads torch's op_db, which --finished does not need.
    from tests.aot import subjects

    return subjects.cases(
        options.subjects.split(","), options.dtype.split(","), options.check.split(",")
    )


def _compiled(
    collected: Mapping[Case, list[Sample]], store: Store, chip: str, *, only_known: bool
) -> dict[str, Compilation]:
    """Compile the programs of the cases for a chip, leaving those of training steps for last."""
    if only_known:
        return store.compilations(chip)
    compiled: dict[str, Compilation] = {}
    for steps, seconds in ((False, SECONDS), (True, STEP_SECONDS)):
        digests = _digests(case for case in collected.items() if (case[0].check == "step") is steps)
        todo = [digest for digest in digests if digest not in compiled]
        results = compile_programs(todo, store, chip, seconds=seconds)
        for result in _shown(results, f"compiled for {chip}", len(todo)):
            compiled[result.digest] = result
    return compiled


def _rows(
    collected: Mapping[Case, list[Sample]], chip: str, compiled: Mapping[str, Compilation]
) -> list[Row]:
    """Return the rows of those cases whose programs all have an outcome."""
    return [
        judge(case, chip, samples, compiled)
        for case, samples in collected.items()
        if all(digest in compiled for digest in _digests([(case, samples)]))
    ]


def _digests(cases: Iterable[tuple[Case, list[Sample]]]) -> list[str]:
    every = (
        program.digest for _, samples in cases for sample in samples for program in sample.programs
    )
    return [digest for digest in dict.fromkeys(every) if digest]


def _shown(items: Iterable[_T], what: str, total: int) -> Iterator[_T]:
    last = time.monotonic()
    count = 0
    for count, item in enumerate(items, 1):
        if time.monotonic() - last > _PROGRESS:
            last = time.monotonic()
            print(f"{count} of {total} {what}", flush=True)
        yield item
    print(f"{count} of {total} {what}", flush=True)


def _surprises(rows: Sequence[Row]) -> list[str]:
    known = golden.read()
    return [fault for row in rows if (fault := golden.surprise(row, known))]


def _updated(rows: Sequence[Row]) -> list[str]:
    """Update the golden files and TABLE.md.

    Return an error for each failure that exceptions.json does not list, and for each unused entry.
    """
    # Under `bazel run`, the golden files next to __file__ are copies. Write to the workspace.
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    folder = Path(root, "tests/aot") if root else Path(__file__).parent
    golden.write(rows, folder / "golden")
    known = golden.read(folder / "golden")
    reasons = exceptions.load(folder / "exceptions.json")
    page.write(known, reasons, folder / "TABLE.md")
    return reasons.faults(known.values())


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for programs and outcomes")
    parser.add_argument("--subjects", default="*", help="names or patterns, with commas")
    parser.add_argument("--dtype", default=",".join(DTYPES), help="dtypes, with commas")
    parser.add_argument("--check", default=",".join(CHECKS), help="checks, with commas")
    parser.add_argument("--chip", default="v5e,v6e", help=f"of {', '.join(PLATFORMS)}, with commas")
    parser.add_argument("--samples", type=int, help="number per case; default: the golden's")
    parser.add_argument(
        "--finished", action="store_true", help="take what the folder has; run nothing"
    )
    parser.add_argument("--update", action="store_true", help="write the golden and TABLE.md")
    parser.add_argument("--list", action="store_true", help="show the cases only")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
