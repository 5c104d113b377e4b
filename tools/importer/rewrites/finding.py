# SPDX-License-Identifier: Apache-2.0
"""Calls that no rewrite rule covers. For each, the user adds a line to rewrites.txt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.importer.errors import UserError
from tools.importer.rewrites.sites import Site

TABLE = "patches/torch/rewrites.txt"


@dataclass(frozen=True)
class Finding:
    """Calls (`sites`) that no rewrite rule covers, in one function or in a whole file.

    For a whole file, `function` is "". `what` describes the problem and `step` the possible next
    steps.
    """

    rule: str
    path: str
    function: str
    sites: tuple[Site, ...]
    what: str
    step: str


def refuse(findings: Sequence[Finding], label: str) -> None:
    """Raise a one-line UserError if there are findings."""
    messages = []
    for head in dict.fromkeys((each.rule, each.step) for each in findings):
        alike = "; ".join(each.what for each in findings if (each.rule, each.step) == head)
        messages.append(f"rewrite {head[0]}, {label}: {alike}. {head[1]}")
    if messages:
        raise UserError(". ".join(messages))
