# SPDX-License-Identifier: Apache-2.0
"""Run test cases, print a line for each and, with `--write`, write the results to a Markdown file.

The mode `cpu` shows how torch itself behaves with gloo on CPU tensors.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from tests.distributed import registry, table
from tests.distributed.launcher import CaseRanks, Outcome

_MODES = ("cpu", "strict", "fused")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases or features; none: all")
    parser.add_argument("--modes", default=",".join(_MODES))
    parser.add_argument("--verbose", action="store_true", help="print the errors of all ranks")
    parser.add_argument("--write", type=pathlib.Path, help="path of a page of the results")
    options = parser.parse_args(argv)
    cases = [
        case
        for case in registry.all_cases().values()
        if case.modes and (not options.names or {case.name, case.feature} & {*options.names})
    ]
    outcomes: dict[tuple[str, str], Outcome] = {}
    for size in sorted({case.ranks for case in cases}):
        with CaseRanks(size) as ranks:
            for case in (case for case in cases if case.ranks == size):
                for mode in options.modes.split(","):
                    outcome = outcomes[case.name, mode] = ranks.run(case.name, mode)
                    print(
                        f"{case.name:35} {mode:7} {outcome.seconds:6.1f} s  {table.cell(outcome)}",
                        flush=True,
                    )
                    if options.verbose and outcome.error:
                        print(outcome.error, flush=True)
    if options.write:
        options.write.write_text(table.page(cases, outcomes), encoding="utf-8")
    return int(any(outcome.error for (_, mode), outcome in outcomes.items() if mode != "cpu"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
