# SPDX-License-Identifier: Apache-2.0
"""mypy: strict types; what is strict about them is in pyproject.toml."""

from __future__ import annotations

import collections.abc
import json

from tools.presubmit import finding, programs, tree

_CRASHED = 2


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yields mypy's errors, each with its notes' text left out.

    Raises:
        EnvironmentProblem: mypy stopped before it had checked anything.
    """
    paths = files.python()
    if not paths:
        return
    done = programs.run(programs.mypy(), ["--output=json", *paths], root=files.root, ok=(0, 1, 2))
    found = [*_errors(done.stdout)]
    if done.returncode == _CRASHED and not found:
        said = (done.stderr or done.stdout).strip()
        raise finding.EnvironmentProblem(
            f"mypy stopped: {said}; if its settings changed, see [tool.mypy] in pyproject.toml"
        )
    yield from found


def _errors(output: str) -> collections.abc.Iterator[finding.Finding]:
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        problem = json.loads(line)
        if problem["severity"] != "error":
            continue
        yield finding.Finding(
            path=problem["file"],
            line=max(problem["line"], 1),
            what=f"{problem['message']} [{problem['code']}]",
            next_step=problem["hint"] or "correct the type, or say why not with a coded ignore",
        )
