# SPDX-License-Identifier: Apache-2.0
"""Find empty files, and temporary files that editors or interrupted programs have left."""

from __future__ import annotations

import collections.abc
import re

from tools.presubmit import finding, tree

# Empty files with these names are allowed, because their mere existence is meaningful.
_EMPTY_ON_PURPOSE = frozenset({"__init__.py", "BUILD", "WORKSPACE", "py.typed", ".gitkeep"})
# The names of temporary files that editors, patch and merge tools, and our own atomic writes create
# (ours are `.NAME.PID`, `.NAME.partial-...` and `NAME.part`).
_TEMPORARY = re.compile(
    r"""
    \.[^/]+\.\d+                                    # .registry.json.17194
    | \.[^/]+\.partial-[^/]+ | \.(?:import|patch)-[^/]+
    | [^/]+\.(?:part|partial|tmp|temp|orig|rej|bak|swp|swo)
    | [^/]+~ | \#[^/]+\# | \.\#[^/]+
    """,
    re.VERBOSE,
)


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each file that is empty or has the name of a temporary file."""
    for path in files.paths:
        name = path.rpartition("/")[2]
        if _TEMPORARY.fullmatch(name):
            fault = f"'{name}' is the name of a temporary file"
        elif name not in _EMPTY_ON_PURPOSE and not (files.root / path).stat().st_size:
            fault = "the file is empty"
        else:
            continue
        yield finding.Finding(
            path=path,
            what=fault,
            next_step=f"remove it (git rm {path}), and fix the program that left it",
        )
