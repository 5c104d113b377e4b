# SPDX-License-Identifier: Apache-2.0
"""ruff: lint and format; its rules are in pyproject.toml."""

from __future__ import annotations

import collections.abc
import json
import os

from tools.presubmit import finding, programs, tree

_FIX = "run: ./bazelw run //tools/presubmit -- --fix"


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yields what ruff's linter and formatter would change or reject."""
    paths = files.python()
    if not paths:
        return
    done = programs.run(
        programs.ruff(), ["check", "--output-format=json", *paths], root=files.root
    )
    for problem in json.loads(done.stdout):
        fixable = (problem["fix"] or {}).get("applicability") == "safe"
        yield finding.Finding(
            path=os.path.relpath(problem["filename"], files.root.resolve()),
            line=problem["location"]["row"],
            what=f"{problem['code'] or 'syntax'} {problem['message']}",
            next_step=_FIX if fixable else f"see: {problem['url'] or 'the line itself'}",
        )
    # Exit status 2 also means "a file does not parse", which the linter has just reported.
    done = programs.run(
        programs.ruff(), ["format", "--check", *paths], root=files.root, ok=(0, 1, 2)
    )
    for line in done.stdout.splitlines():
        if line.startswith("Would reformat: "):
            yield finding.Finding(
                path=line.removeprefix("Would reformat: "),
                what="not formatted",
                next_step=_FIX,
            )


def fix(files: tree.Tree) -> None:
    """Applies ruff's safe fixes and its format."""
    paths = files.python()
    if paths:
        programs.run(programs.ruff(), ["check", "--fix", "--quiet", *paths], root=files.root)
        programs.run(programs.ruff(), ["format", *paths], root=files.root, ok=(0, 1, 2))
