# SPDX-License-Identifier: Apache-2.0
"""A rewrite rule as data: the calls to match, their replacement, exceptions, expected counts.

A rule without a `target` rewrites nothing. It is a guard: in a tree with all patches, no call may
remain without a recorded reason.
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
    """A form of the call. `call` captures its path as PATH; `suffix` follows the new call."""

    name: str
    call: m.Call
    suffix: str = ""


@dataclass(frozen=True)
class Kept:
    """Calls in one function that stay unchanged; `function` is dotted, or `<module>`."""

    path: str
    function: str
    reason: str
    most: int = 1


@dataclass(frozen=True)
class Rule:
    """A rewrite rule. No `guarded` callee may be called on a path from `__file__`, except `kept`.

    `expected` gives the number of rewritten calls per file, by the first release with that number.
    `kept` and `expected` are data (see known_calls.py). `header` is the patch's header without its
    Subject.
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
        """Return whether the rule applies to a file; a pattern's `*` also matches slashes."""
        return any(fnmatchcase(path, pattern) for pattern in self.scope) and not any(
            fnmatchcase(path, pattern) for pattern in self.outside
        )

    def matches_in(self, label: str) -> Mapping[str, int]:
        """Return the expected matches by file, merged over all releases up to this one.

        A label that is not a release uses all releases; one older than all uses the oldest.
        """
        order = sorted(self.expected, key=_age)
        upto = [name for name in order if _age(name) <= _age(label)] or order[:1]
        counts: dict[str, int] = {}
        for name in upto:
            counts |= self.expected[name]
        return {path: number for path, number in counts.items() if number}


_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)(.*)")


def _age(label: str) -> tuple[bool, tuple[int, ...], bool, str]:
    """Return a sort key: by number, candidates before releases, branches and commits last."""
    match = _RELEASE.fullmatch(label)
    if match is None:
        return (True, (), True, "")
    return (False, tuple(map(int, match[1].split("."))), not match[2], match[2])
