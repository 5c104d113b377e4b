# SPDX-License-Identifier: Apache-2.0
"""Lint Python files and check their format with ruff, using the rules in pyproject.toml."""

from __future__ import annotations

import collections.abc
import json
import os

from tools.presubmit import finding, programs, tree

_FIX = "run: ./bazelw run //tools/presubmit -- --fix"


def find(files: tree.Tree) -> set[finding.Finding]:
    """Return the findings of ruff's linter and formatter."""
    paths = files.python()
    if not paths:
        return set()
    # The linter and the formatter both report a syntax error. Use a set, so that identical findings
    # are reported once. On a syntax error, the formatter exits with status 2.
    return {
        *_run(files, ["check"], paths),
        *_run(files, ["format", "--check"], paths),
    }


def fix(files: tree.Tree) -> None:
    """Apply ruff's safe lint fixes and run its formatter."""
    paths = files.python()
    if paths:
        programs.run(programs.ruff(), ["check", "--fix", "--quiet", *paths], root=files.root)
        programs.run(programs.ruff(), ["format", *paths], root=files.root, ok=(0, 1, 2))


def _run(
    files: tree.Tree, command: list[str], paths: list[str]
) -> collections.abc.Iterator[finding.Finding]:
    done = programs.run(
        programs.ruff(), [*command, "--output-format=json", *paths], root=files.root, ok=(0, 1, 2)
    )
    try:
        problems = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise finding.EnvironmentProblem(
            f"ruff {command[0]} ended with {done.returncode}: {done.stderr.strip()}; "
            "see [tool.ruff] in pyproject.toml"
        ) from error
    for problem in problems:
        fixable = (problem["fix"] or {}).get("applicability") == "safe"
        yield finding.Finding(
            path=os.path.relpath(problem["filename"], files.root.resolve()),
            line=problem["location"]["row"],
            what=f"{problem['code']} {problem['message']}",
            next_step=_FIX if fixable else f"see: {problem['url'] or 'the line itself'}",
        )
