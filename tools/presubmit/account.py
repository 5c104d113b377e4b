# SPDX-License-Identifier: Apache-2.0
"""Print a test run's results by room (source folder) and by device, with reasons for skips.

    python3 -m tools.presubmit.account FILE.xml|FOLDER ...

FILE is a result file written by pytest's --junitxml. In a FOLDER, such as bazel-testlogs after
`bazel test //...`, every test.xml file is read. `.ci/run` prints the same tables for its own run.
This module imports only the standard library, because the host's python3 runs it.
"""

from __future__ import annotations

import collections
import collections.abc
import pathlib
import re
import sys

from tools.presubmit import results
from tools.presubmit.results import Case, Outcome

_ANY = "no device"
# A pattern for numbers, because skip messages with the same reason may contain different numbers.
_VARYING = re.compile(r"0x[0-9a-f]+|(?<![\w.])\d+(?![\w.])")
# The maximum length of a skip reason in a table, in characters.
_WIDTH = 120


class Account:
    """Counts of test cases by room (source folder), by device and by skip reason."""

    def __init__(self) -> None:
        self._rooms: collections.defaultdict[str, collections.Counter[Outcome]]
        self._rooms = collections.defaultdict(collections.Counter)
        self._devices: collections.defaultdict[str, collections.Counter[Outcome]]
        self._devices = collections.defaultdict(collections.Counter)
        self._reasons: collections.Counter[str] = collections.Counter()

    def add(self, room: str, cases: collections.abc.Iterable[Case]) -> None:
        for case in cases:
            self._rooms[room][case.outcome] += 1
            self._devices[case.device or _ANY][case.outcome] += 1
            if case.outcome is Outcome.SKIPPED:
                self._reasons[_grouped(case.reason)] += 1

    def lines(self) -> list[str]:
        """Return the lines of all tables that are not empty."""
        lines = _table("room", self._rooms) + _table("device", self._devices)
        if self._reasons:
            lines.append("skipped because")
            ordered = sorted(self._reasons.items(), key=lambda item: (-item[1], item[0]))
            lines += [f"{number:8,}  {reason}" for reason, number in ordered]
        return lines


def room(label: str) -> str:
    """Return the room of a Bazel target: the first two components of its package path."""
    package = label.partition("//")[2].partition(":")[0]
    return "/".join(package.split("/")[:2]) or "//"


def main(argv: collections.abc.Sequence[str]) -> int:
    """Print the tables. Return 0 if at least one case ran and none failed."""
    account = Account()
    outcomes: collections.Counter[Outcome] = collections.Counter()
    for argument in argv:
        for name, path in _files(pathlib.Path(argument)):
            try:
                cases = results.read(path).cases
            except results.ResultsError as error:
                print(f"account: {error}", file=sys.stderr)
                return 1
            account.add(name, cases)
            outcomes.update(case.outcome for case in cases)
    if not outcomes:
        print("account: no test case in these files; name pytest's result files or bazel-testlogs")
        return 1
    print("\n".join(account.lines()))
    return 1 if outcomes[Outcome.FAILED] else 0


def _files(argument: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """Return (label in the table, result file) pairs for a command-line argument.

    The label of a result file is its name without the suffix. If the argument is a folder, return
    every test.xml file under it, with the target's room (see `room`) as the label.
    """
    if not argument.is_dir():
        return [(argument.stem, argument)]
    pairs = []
    for path in sorted(argument.rglob("test.xml")):
        # test.xml is in a target's folder, or in the folder of one of the target's shards.
        folder = path.parent.relative_to(argument)
        sharded = folder.name.startswith("shard_")
        target = folder.parent if sharded else folder
        pairs.append((room(f"//{target.parent.as_posix()}"), path))
    return pairs


def _grouped(reason: str) -> str:
    first = (reason.splitlines() or [""])[0]
    group = _VARYING.sub("N", first) or "no reason was given"
    return group if len(group) <= _WIDTH else f"{group[: _WIDTH - 3]}..."


def _table(
    head: str, rows: collections.abc.Mapping[str, collections.Counter[Outcome]]
) -> list[str]:
    lines = [f"{head:<36}{'ran':>8}{'passed':>8}{'failed':>8}{'skipped':>9}"]
    total: collections.Counter[Outcome] = collections.Counter()
    for name, counts in sorted(rows.items()):
        lines.append(_row(name, counts))
        total += counts
    if len(rows) > 1:
        lines.append(_row("all", total))
    return lines


def _row(name: str, counts: collections.Counter[Outcome]) -> str:
    passed, failed, skipped = (counts[outcome] for outcome in Outcome)
    return f"{name:<36}{passed + failed:>8,}{passed:>8,}{failed:>8,}{skipped:>9,}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
