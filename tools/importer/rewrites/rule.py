# SPDX-License-Identifier: Apache-2.0
"""What a rewrite is, as data: which calls it looks for, what becomes of them, what it leaves, how many.

A rule without a `target` rewrites nothing and only guards: it says of a tree, with all its patches
in, that no such call is left but those with a reason.
"""

from __future__ import annotations

import re
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

    `expected` has how many calls of a file the rule rewrites, from the release on that it is listed
    under. Both are data (see known_calls.py). `header` is the patch's, less its Subject.
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
        """Return the expected matches by file: what the releases up to this one say, one by one.

        What is no release, or older than all of them, has the numbers of all, or of the oldest.
        """
        order = sorted(self.expected, key=_age)
        upto = [name for name in order if _age(name) <= _age(label)] or order[:1]
        found: dict[str, int] = {}
        for name in upto:
            found |= self.expected[name]
        return {path: number for path, number in found.items() if number}


_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(.*)")


def _age(label: str) -> tuple[bool, tuple[int, ...], bool, str]:
    """Order releases by their numbers, candidates before them, branches and commits last."""
    found = _RELEASE.fullmatch(label)
    if found is None:
        return (True, (), True, "")
    return (False, tuple(map(int, found[1].split("."))), not found[2], found[2])
