# SPDX-License-Identifier: Apache-2.0
"""The results of a check: a finding in the source tree, or a problem with the environment."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, order=True, kw_only=True)
class Finding:
    """A problem to fix before merging. Line 1 may also mean the whole file."""

    path: str
    line: int = 1
    what: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.next_step}"


class EnvironmentProblem(Exception):
    """Raised if a check cannot run on this machine, so the tree may or may not have findings."""
