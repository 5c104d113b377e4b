# SPDX-License-Identifier: Apache-2.0
"""Find text that must not be committed: server names, local paths, to-dos, conflict markers."""

from __future__ import annotations

import collections.abc
import dataclasses
import re

from tools.presubmit import finding, tree


@dataclasses.dataclass(frozen=True)
class Rule:
    """A forbidden pattern, the meaning of a match, and the remedy."""

    pattern: re.Pattern[str]
    what: str
    next_step: str


# The patterns use forms such as [.], so that this file passes its own check.
RULES = (
    Rule(
        re.compile(r"(?:deb|security|snapshot|archive|ftp(?:[.]\w+)?)[.]debian[.]org"),
        "names a Debian mirror",
        "take the mirror from the machine's own apt settings",
    ),
    Rule(
        re.compile(r"pypi[.]org|files[.]pythonhosted[.]org|test[.]pypi[.]"),
        "names a Python package index",
        "leave the index to the machine's own pip settings",
    ),
    Rule(
        re.compile(r"registry[.](?:npmjs[.]org|yarnpkg[.]com|npmmirror[.]com)"),
        "names an npm registry",
        "leave the registry to the machine's own npm settings",
    ),
    Rule(
        re.compile(r"(?<![\w.$}/~-])/(?:work|root|opt)(?=/\w)"),
        "names a path of one machine",
        "compute it, or take it from a flag or the environment",
    ),
    Rule(
        re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b"),
        "a note to self",
        "do it now, or open an issue and say why the code is right as it is",
    ),
    Rule(
        re.compile(r"^(?:<{7}|>{7}|={7})(?: |$)"),
        "a merge conflict marker",
        "resolve the conflict",
    ),
)
# Bazel writes this file, and it contains URLs of the module registry.
_GENERATED = ("MODULE.bazel.lock",)


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield one finding per line and rule. In a patch, only the header and added lines count."""
    for path in files.paths:
        if path in _GENERATED:
            continue
        numbered = enumerate(files.lines(path), start=1)
        for number, line in _added(numbered) if path.endswith(".patch") else numbered:
            for rule in RULES:
                match = rule.pattern.search(line)
                if match:
                    yield finding.Finding(
                        path=path,
                        line=number,
                        what=f"'{match[0]}' {rule.what}",
                        next_step=rule.next_step,
                    )


def _added(
    lines: collections.abc.Iterable[tuple[int, str]],
) -> collections.abc.Iterator[tuple[int, str]]:
    """Yield a patch's header and added lines, because all other lines are upstream's text."""
    in_header = True
    for number, line in lines:
        if line.startswith(("diff --git ", "--- ")):
            in_header = False
        if in_header or (line.startswith("+") and not line.startswith("+++ ")):
            yield number, line[0 if in_header else 1 :]
