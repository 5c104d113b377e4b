# SPDX-License-Identifier: Apache-2.0
"""What a check reports: a finding in the tree, or a problem with the machine."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class Finding:
    """One thing to change before landing. `line` counts from 1 and is 1 for a whole file."""

    path: str
    line: int = 1
    what: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.next_step}"


class EnvironmentProblem(Exception):
    """A check could not do its work here: says nothing about the tree's quality."""
