# SPDX-License-Identifier: Apache-2.0
"""Results of a check: a finding in the tree, or a problem with the machine."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class Finding:
    """A fault to fix before a merge. `line` counts from 1; it is 1 for a whole file."""

    path: str
    line: int = 1
    what: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.next_step}"


class EnvironmentProblem(Exception):
    """A check could not run on this machine; this says nothing about the tree."""
