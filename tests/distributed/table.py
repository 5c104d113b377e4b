# SPDX-License-Identifier: Apache-2.0
"""Format the results as a Markdown page, with a row for each test case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tests.distributed.launcher import Outcome
from tests.distributed.registry import FEATURES, Case

_HEAD = """# Results

Written by `python -m tests.distributed.run --write=PATH`. A number is the largest
difference from the reference, over all steps and ranks. The column cpu has the same case on CPU tensors
with gloo: what fails there, torch refuses.
"""


def page(cases: Iterable[Case], outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    cases = list(cases)
    lines = [_HEAD]
    for feature, title in FEATURES.items():
        lines += [f"## {title}", "", "| case | ranks | cpu | strict | fused |"]
        lines.append("|---|---|---|---|---|")
        for case in (case for case in cases if case.feature == feature):
            cells = [
                cell(outcomes[case.name, mode]) if (case.name, mode) in outcomes else ""
                for mode in ("cpu", "strict", "fused")
            ]
            lines.append(f"| `{case.name}` | {case.ranks} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def cell(outcome: Outcome) -> str:
    """Return the text of a table cell: the largest difference, or the error of a failed case."""
    if not outcome.error:
        return f"{outcome.difference:.1e}" if outcome.difference else "equal"
    errors = re.findall(r"^\w*(?:Error|Exception): .*$", outcome.error, re.MULTILINE)
    return (errors[-1] if errors else "failed")[:120].replace("|", "\\|")
