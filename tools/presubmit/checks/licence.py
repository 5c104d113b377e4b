# SPDX-License-Identifier: Apache-2.0
"""Check that every source states its licence in line 1, or in line 2 after a `#!` line."""

from __future__ import annotations

import collections.abc

from tools.presubmit import finding, tree

_TAG = "SPDX-License-Identifier: "
_LICENCE = "Apache-2.0"
_SHELL_SUFFIX = ".sh"


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each source that lacks a licence line or states another licence.

    BUILD and module files contain only declarations, so they need no licence line. Patches keep
    upstream's licence.
    """
    for path in _sources(files):
        lines = files.lines(path)
        line = 2 if lines and lines[0].startswith("#!") else 1
        expected = f"{_comment(path)} {_TAG}{_LICENCE}"
        actual = lines[line - 1] if len(lines) >= line else ""
        if actual == expected:
            continue
        what = f"its licence line reads '{actual}'" if _TAG in actual else "no licence line"
        yield finding.Finding(
            path=path, line=line, what=what, next_step=f"make this line '{expected}'"
        )


def _sources(files: tree.Tree) -> list[str]:
    starlark = [path for path in files.paths if path.endswith((".bzl", _SHELL_SUFFIX))]
    return sorted({*files.python(), *files.c_sources(), *files.scripts(), *starlark})


def _comment(path: str) -> str:
    return "//" if path.endswith(tree.C_SUFFIXES) else "#"
