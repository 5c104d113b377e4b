# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit import finding
from tools.presubmit.checks import python_types, sample_tree


def test_accepts_and_resolves_from_the_root(tmp_path: pathlib.Path) -> None:
    contents = {
        "lib/__init__.py": "",
        "lib/a.py": "def twice(x: int) -> int:\n    return 2 * x\n",
        "b.py": "import torch\n\nfrom lib import a\n\nY: int = a.twice(2)\nZ = torch.ones(2)\n",
    }
    files = sample_tree.write(tmp_path, contents, "pyproject.toml")
    assert [*python_types.find(files)] == []


def test_rejects(tmp_path: pathlib.Path) -> None:
    contents = {
        "lib/a.py": "def twice(x: int) -> str:\n    return 2 * x\n\n\ndef bare(x):\n    ...\n"
    }
    files = sample_tree.write(tmp_path, contents, "pyproject.toml")
    problems = [*python_types.find(files)]
    assert [(each.path, each.line) for each in problems] == [("lib/a.py", 2), ("lib/a.py", 5)]
    assert "[return-value]" in problems[0].what
    assert "[no-untyped-def]" in problems[1].what


def test_a_blocking_error_is_a_finding(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.py": "def (:\n"}, "pyproject.toml")
    problem = min(python_types.find(files))
    assert (problem.path, problem.line) == ("a.py", 1)
    assert problem.what.endswith("[syntax]")


@pytest.mark.full
def test_wrong_settings_are_the_environments(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.py": "", "pyproject.toml": "[tool.mypy\n"})
    with pytest.raises(finding.EnvironmentProblem, match=r"pyproject\.toml"):
        [*python_types.find(files)]
