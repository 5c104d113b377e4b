# SPDX-License-Identifier: Apache-2.0
"""Choose the part of the full run that fits into the time left.

    bazel query ... | python3 -m tools.presubmit.rotation --seconds=N --cores=N --turn=N

The program reads target labels, one per line, prints those to run, and writes a summary to standard
error. --turn, a number that the caller increases over time, determines the first target, so that
every target that fits eventually runs. Targets that alone exceed the time left are skipped, and
named on standard error. Costs come from tests/seconds.json; a target without an entry counts as
five minutes. This module needs only the standard library.
"""

from __future__ import annotations

import argparse
import collections.abc
import sys

from tools.presubmit import seconds
from tools.presubmit.results import ResultsError
from tools.presubmit.seconds import Cost

_UNKNOWN = Cost(total=300, longest=300, shards=1)
# The smallest budget, in CPU seconds: enough for most targets, even if CI is late.
_MIN_BUDGET = 300.0


def choose(
    labels: collections.abc.Sequence[str],
    costs: collections.abc.Mapping[str, Cost],
    *,
    budget: float,
    turn: int,
) -> tuple[list[str], list[str]]:
    """Return the next targets that together fit into `budget` CPU seconds, and those skipped.

    A target that alone exceeds the budget is skipped. The first target's index is `turn` modulo the
    number of targets.
    """
    left = budget
    first = turn % len(labels)
    chosen: list[str] = []
    skipped: list[str] = []
    for label in [*labels[first:], *labels[:first]]:
        cost = costs.get(label, _UNKNOWN).total
        if cost > budget:
            skipped.append(label)
            continue
        left -= cost
        if left < 0:
            break
        chosen.append(label)
    return chosen, skipped


def main(argv: collections.abc.Sequence[str]) -> int:
    """Print the chosen targets. Return 0, or 1 if there are none."""
    parser = argparse.ArgumentParser(prog="rotation", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, required=True, help="elapsed time that is left")
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--turn", type=int, required=True)
    options = parser.parse_args(argv)
    labels = sorted(line.strip() for line in sys.stdin if line.strip())
    if not labels:
        print("rotation: found no target on standard input; give labels", file=sys.stderr)
        return 1
    try:
        table = seconds.read()
        costs = table[seconds.FULL]
    except ResultsError as error:
        print(f"rotation: {error}", file=sys.stderr)
        costs = {}
    budget = max(options.seconds * options.cores, _MIN_BUDGET)
    chosen, skipped = choose(labels, costs, budget=budget, turn=options.turn)
    for label in skipped:
        print(
            f"full run: skipped {label}, which takes {costs[label].total} CPU s; {budget:.0f} are "
            f"left. Run it alone: bazelw test --config=full {label}",
            file=sys.stderr,
        )
    if not chosen:
        print(f"rotation: no target fits into {budget:.0f} CPU s; raise --seconds", file=sys.stderr)
        return 1
    print(
        f"full run, turn {options.turn}: {len(chosen)} of {len(labels)} targets, "
        f"{chosen[0]} to {chosen[-1]}",
        file=sys.stderr,
    )
    print("\n".join(chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
