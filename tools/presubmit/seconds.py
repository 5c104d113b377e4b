# SPDX-License-Identifier: Apache-2.0
"""The committed table of CPU seconds per test target: `tests/seconds.json`.

    python3 -m tools.presubmit.seconds EVENTS.json ...

EVENTS.json is what a `bazel test --build_event_json_file` wrote. Targets that ran get new figures, the
others keep theirs. A target of pytest says its CPU time itself; of any other the elapsed time counts.
Standard library only.
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
_PROPERTY = "cpu_seconds"


@dataclasses.dataclass(frozen=True)
class Cost:
    """CPU seconds of one target: `total` over its `shards`, and `longest` of one of them."""

    total: int
    longest: int
    shards: int


def read(file: pathlib.Path = FILE) -> dict[str, Cost]:
    """Return the cost of each target, by its label.

    Raises:
        ResultsError: the file is missing, or is not such a table.
    """
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return {label: Cost(**row) for label, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ResultsError(f"{file}: {error}; write it with {_command()}") from error


def write(costs: collections.abc.Mapping[str, Cost], file: pathlib.Path = FILE) -> None:
    """Replace the table."""
    rows = [
        f"  {json.dumps(label)}: {json.dumps(dataclasses.asdict(cost))}"
        for label, cost in sorted(costs.items())
    ]
    aside = file.with_suffix(".part")
    aside.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    aside.replace(file)


def measured(events: pathlib.Path) -> dict[str, Cost]:
    """Return the cost of each target that ran.

    Raises:
        ResultsError: the events or a result file cannot be read.
    """
    shards: collections.defaultdict[str, list[float]] = collections.defaultdict(list)
    for attempt in attempts(events):
        said = cases(attempt).properties.get(_PROPERTY)
        shards[attempt.label].append(attempt.seconds if said is None else float(said))
    return {
        label: Cost(total=round(sum(each)), longest=round(max(each)), shards=len(each))
        for label, each in shards.items()
    }


def main(argv: collections.abc.Sequence[str]) -> int:
    """Update the table. Return 0, or 1 if a file cannot be read."""
    try:
        costs = read() if FILE.exists() else {}
        for events in argv:
            costs |= measured(pathlib.Path(events))
    except ResultsError as error:
        print(f"seconds: {error}", file=sys.stderr)
        return 1
    write(costs)
    return 0


def _command() -> str:
    return "python3 -m tools.presubmit.seconds EVENTS.json"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
