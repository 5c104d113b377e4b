# SPDX-License-Identifier: Apache-2.0
"""Check types with mypy in strict mode, using the settings in pyproject.toml."""

from __future__ import annotations

import collections.abc
import json

from tools.presubmit import finding, programs, tree

_NEXT_STEP = "correct the type, or say why not with a coded ignore"


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each error that mypy reports. Notes are ignored.

    Raises:
        EnvironmentProblem: mypy rejects its settings, or fails without reporting an error.
    """
    paths = files.python()
    if not paths:
        return
    done = programs.run(programs.mypy(), ["--output=json", *paths], root=files.root, ok=(0, 1, 2))
    errors = [*_errors(done.stdout)]
    # If a setting is invalid, mypy reports that on stderr and continues with the default setting.
    if done.stderr.strip() or bool(done.returncode) != bool(errors):
        output = (done.stderr or done.stdout).strip()
        raise finding.EnvironmentProblem(
            f"mypy ended with {done.returncode}: {output}; see [tool.mypy] in pyproject.toml"
        )
    yield from errors


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
            next_step=(problem["hint"] or _NEXT_STEP).partition("\n")[0],
        )
