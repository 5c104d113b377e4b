# SPDX-License-Identifier: Apache-2.0
"""Check that links in Markdown files lead to existing files and headings."""

from __future__ import annotations

import collections.abc
import posixpath
import re

from tools.presubmit import finding, tree

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z]+:")
_HEADING = re.compile(r"#{1,6} +(?P<title>.*?)( +#+)?$")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each relative link to a missing file, folder or heading."""
    present = {*files.paths, *(folder for path in files.paths for folder in _folders(path))}
    anchors: dict[str, frozenset[str]] = {}
    for path in files.paths:
        if not path.endswith(".md"):
            continue
        for number, line in _prose(files.lines(path)):
            for link in _LINK.finditer(line):
                target = link["target"]
                if _ELSEWHERE.match(target):
                    continue
                name, _, anchor = target.partition("#")
                document = path
                if name:
                    document = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
                if document not in present:
                    yield finding.Finding(
                        path=path,
                        line=number,
                        what=f"the link to '{target}' leads nowhere",
                        next_step="correct it, or add the file",
                    )
                    continue
                if not anchor or not document.endswith(".md"):
                    continue
                if document not in anchors:
                    anchors[document] = frozenset(_anchors(files.lines(document)))
                if anchor not in anchors[document]:
                    yield finding.Finding(
                        path=path,
                        line=number,
                        what=f"the link to '{target}' names no heading of {document}",
                        next_step="correct it; a heading's anchor is its words in lower case, "
                        "joined by hyphens",
                    )


def _prose(lines: list[str]) -> collections.abc.Iterator[tuple[int, str]]:
    """Yield (line number, line) for each line outside code blocks."""
    in_code = False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def _anchors(lines: list[str]) -> collections.abc.Iterator[str]:
    """Yield the anchors of a document's headings. Repeated ones end in `-1`, `-2` and so on."""
    counts: collections.Counter[str] = collections.Counter()
    for _, line in _prose(lines):
        if heading := _HEADING.fullmatch(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["title"])
            anchor = _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")
            yield f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor
            counts[anchor] += 1


def _folders(path: str) -> collections.abc.Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
