# SPDX-License-Identifier: Apache-2.0
"""What a rewrite is, as data: which calls it looks for, what becomes of them, what it leaves, how many.

A rule without a `target` rewrites nothing and only guards: it says of a tree, with all its patches
in, that no such call is left but those with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import libcst.matchers as m

PATH = "path"


@dataclass(frozen=True)
class Operation:
    """One way to spell the call. `call` saves its path argument as PATH; `suffix` follows the new call."""

    name: str
    call: m.Call
    suffix: str = ""


@dataclass(frozen=True)
class Kept:
    """Calls in one function that stay as they are; `function` is dotted, `<module>` at the top."""

    path: str
    function: str
    reason: str
    most: int = 1


@dataclass(frozen=True)
class Rule:
    """`guarded` are callees that may not be left on a path from `__file__`, except as `kept` says.

    `expected` has for each release how many calls each file has that the rule rewrites; a release
    that is not in it must be as the last one there. `header` is the patch's, less its Subject.
    """

    name: str
    about: str
    guarded: frozenset[str]
    scope: tuple[str, ...]
    outside: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    operations: tuple[Operation, ...] = ()
    header: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    expected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def covers(self, path: str) -> bool:
        """Whether the rule looks at a file; `*` of a pattern stands for slashes too."""
        return any(fnmatchcase(path, pattern) for pattern in self.scope) and not any(
            fnmatchcase(path, pattern) for pattern in self.outside
        )

    def matches_in(self, label: str) -> Mapping[str, int]:
        """Return the expected matches by file: those of the release, else of the newest one known."""
        if label in self.expected:
            return self.expected[label]
        return list(self.expected.values())[-1] if self.expected else {}
