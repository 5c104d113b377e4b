# SPDX-License-Identifier: Apache-2.0
"""Links between documents lead somewhere."""

from __future__ import annotations

import collections.abc
import posixpath
import re

from tools.presubmit import finding, tree

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:|#")


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yields relative links in Markdown to files and folders that are not in the tree."""
    present = {*files.paths, *(folder for path in files.paths for folder in _folders(path))}
    for path in files.paths:
        if not path.endswith(".md"):
            continue
        for number, line in _prose(files.lines(path)):
            for link in _LINK.finditer(line):
                target = link["target"]
                if _ELSEWHERE.match(target):
                    continue
                place = posixpath.join(posixpath.dirname(path), target.partition("#")[0])
                if posixpath.normpath(place) not in present:
                    yield finding.Finding(
                        path=path,
                        line=number,
                        what=f"the link to '{target}' leads nowhere",
                        next_step="correct it, or add the file",
                    )


def _prose(lines: list[str]) -> collections.abc.Iterator[tuple[int, str]]:
    """Numbered lines outside of code blocks."""
    in_code = False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def _folders(path: str) -> collections.abc.Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
