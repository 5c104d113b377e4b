# SPDX-License-Identifier: Apache-2.0
"""A rewrite rule as data: the calls that it matches, their replacement, exemptions, and counts.

A rule without a `target` rewrites nothing and is only a check: in a tree with all patches, each
remaining call must have a recorded reason.
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
    """A call pattern. `call` matches the call, and captures its path expression as PATH.

    `suffix` is appended to the rewritten call.
    """

    name: str
    call: m.Call
    suffix: str = ""


@dataclass(frozen=True)
class Kept:
    """Calls in one function that stay unchanged. `function` is a dotted name or `<module>`."""

    path: str
    function: str
    reason: str
    most: int = 1


@dataclass(frozen=True)
class Rule:
    """A rewrite rule. Only `kept` calls to `guarded` names may use a path computed from `__file__`.

    `expected` maps a release to the number of rewritten calls per file that applies from that
    release on. `kept` and `expected` are read from rewrites.txt (known_calls.py). `header` is the
    header of the rule's patch, excluding the Subject.
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
        """Return whether the rule applies to a file. In its patterns, `*` also matches slashes."""
        return any(fnmatchcase(path, pattern) for pattern in self.scope) and not any(
            fnmatchcase(path, pattern) for pattern in self.outside
        )

    def matches_in(self, label: str) -> Mapping[str, int]:
        """Return the expected number of matches per file in the release `label`.

        A file's number is the last one recorded for this release or an older one. If `label` is not
        a release, the last recorded number is used; if it is older than all recorded releases, the
        numbers of the oldest one are used.
        """
        order = sorted(self.expected, key=_age)
        upto = [name for name in order if _age(name) <= _age(label)] or order[:1]
        counts: dict[str, int] = {}
        for name in upto:
            counts |= self.expected[name]
        return {path: number for path, number in counts.items() if number}


_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(.*)")


def _age(label: str) -> tuple[bool, tuple[int, ...], bool, str]:
    """Return a sort key: by version, pre-releases before releases, branches and commits last."""
    match = _RELEASE.fullmatch(label)
    if match is None:
        return (True, (), True, "")
    return (False, tuple(map(int, match[1].split("."))), not match[2], match[2])
