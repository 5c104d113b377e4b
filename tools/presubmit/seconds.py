# SPDX-License-Identifier: Apache-2.0
"""Read and update `tests/seconds.json`, the committed table of CPU seconds per test target.

    python3 -m tools.presubmit.seconds default=EVENTS.json full=EVENTS.json

EVENTS.json is the file from `bazel test --build_event_json_file`, for the default run or for a run
with --config=full. Targets that ran get new figures; the others keep theirs. The figure is the CPU
time that a pytest target records, or the elapsed time of any other target. This module needs only
the standard library.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import json
import pathlib
import sys

from tools.presubmit.results import ResultsError, attempts, cases

FILE = pathlib.Path("tests/seconds.json")
DEFAULT = "default"
FULL = "full"
_PROPERTY = "cpu_seconds"


@dataclasses.dataclass(frozen=True)
class Cost:
    """CPU seconds of one target: the total over its shards, and those of the longest shard."""

    total: int
    longest: int
    shards: int


Table = dict[str, dict[str, Cost]]
"""The cost of each target, by run (default or full) and label."""


def read(file: pathlib.Path = FILE) -> Table:
    """Return the committed table.

    Raises:
        ResultsError: the file is missing or has the wrong format.
    """
    try:
        runs = json.loads(file.read_text(encoding="utf-8"))
        return {
            run: {label: Cost(**row) for label, row in runs[run].items()} for run in (DEFAULT, FULL)
        }
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ResultsError(f"{file}: {error}; write it with {_command()}") from error


def write(table: Table, file: pathlib.Path = FILE) -> None:
    """Replace the committed table. The new file has one line per target."""
    runs = []
    for run, costs in sorted(table.items()):
        rows = ",".join(
            f"\n    {json.dumps(label)}: {json.dumps(dataclasses.asdict(cost))}"
            for label, cost in sorted(costs.items())
        )
        runs.append(f"  {json.dumps(run)}: {{{rows}\n  }}")
    aside = file.with_suffix(".part")
    aside.write_text("{\n" + ",\n".join(runs) + "\n}\n", encoding="utf-8")
    aside.replace(file)


def measured(events: pathlib.Path) -> dict[str, Cost]:
    """Return the cost (CPU seconds) of each target that ran.

    Raises:
        ResultsError: the events or a result file cannot be read.
    """
    shards: collections.defaultdict[str, list[float]] = collections.defaultdict(list)
    for attempt in attempts(events):
        recorded = cases(attempt).properties.get(_PROPERTY)
        shards[attempt.label].append(attempt.seconds if recorded is None else float(recorded))
    return {
        label: Cost(total=round(sum(each)), longest=round(max(each)), shards=len(each))
        for label, each in shards.items()
    }


def main(argv: collections.abc.Sequence[str]) -> int:
    """Update the table. Return 0, or 1 if an argument is wrong or a file is unreadable."""
    try:
        table = read() if FILE.exists() else {DEFAULT: {}, FULL: {}}
        for argument in argv:
            run, _, events = argument.partition("=")
            if run not in table:
                print(f"seconds: found {argument!r}; give {_ARGUMENTS}", file=sys.stderr)
                return 1
            table[run] |= measured(pathlib.Path(events))
    except ResultsError as error:
        print(f"seconds: {error}", file=sys.stderr)
        return 1
    write(table)
    return 0


_ARGUMENTS = "default=EVENTS.json or full=EVENTS.json"


def _command() -> str:
    return f"python3 -m tools.presubmit.seconds {_ARGUMENTS}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
