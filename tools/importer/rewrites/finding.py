# SPDX-License-Identifier: Apache-2.0
"""A place of a tree that a rule does not know: a person decides, and a line of data says how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.importer.errors import UserError
from tools.importer.rewrites.sites import Site

TABLE = "patches/torch/rewrites.txt"


@dataclass(frozen=True)
class Finding:
    """`sites` are the calls: of one `function`, or (function is "") those of a file to be rewritten.

    `what` says what was found, `step` what the person may do.
    """

    rule: str
    path: str
    function: str
    sites: tuple[Site, ...]
    what: str
    step: str


def refuse(findings: Sequence[Finding], label: str) -> None:
    """Raise UserError, one line, if there are findings."""
    told = []
    for head in dict.fromkeys((each.rule, each.step) for each in findings):
        alike = "; ".join(each.what for each in findings if (each.rule, each.step) == head)
        told.append(f"rewrite {head[0]}, {label}: {alike}. {head[1]}")
    if told:
        raise UserError(". ".join(told))
