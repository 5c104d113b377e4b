# SPDX-License-Identifier: Apache-2.0
"""Check that the names of files and folders describe their contents."""

from __future__ import annotations

import collections.abc
import re

from tools.presubmit import finding, tree

_VAGUE = re.compile(r"(?:^|[_-])(utils?|commons?|helpers?|misc|stuff)$")
# Folders that mirror an upstream source tree, because files include headers by these paths.
_UPSTREAMS = re.compile(r"third_party/[^/]+/source/cpp/")
_SOURCE = (*tree.PYTHON_SUFFIXES, *tree.C_SUFFIXES, ".bzl", ".sh")


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each source that has a vague name or is in a folder with a vague name."""
    for path in files.paths:
        if not path.endswith(_SOURCE):
            continue
        *folders, name = path.split("/")
        if _UPSTREAMS.match(path):
            folders = []
        stem = name.partition(".")[0].removesuffix("_test")
        for part in [*folders, stem]:
            match = _VAGUE.search(part)
            if match:
                yield finding.Finding(
                    path=path,
                    what=f"'{part}' says nothing about what it holds ('{match[1]}')",
                    next_step="name it after the one thing that it contains",
                )
