# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit import finding
from tools.presubmit.checks import python_style, sample_tree

_CLEAN = '"""A module."""\n\nX = 1\n'


def test_accepts(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.py": _CLEAN}, "pyproject.toml")
    assert python_style.find(files) == set()


def test_no_python_needs_no_ruff(tmp_path: pathlib.Path) -> None:
    assert python_style.find(sample_tree.write(tmp_path, {"README.md": "text"})) == set()


def test_lint_is_placed(tmp_path: pathlib.Path) -> None:
    text = '"""A module."""\n\ntry:\n    X = 1\nexcept Exception:\n    X = 2\n'
    files = sample_tree.write(tmp_path, {"lib/a.py": text}, "pyproject.toml")
    (problem,) = python_style.find(files)
    assert (problem.path, problem.line) == ("lib/a.py", 5)
    assert problem.what.startswith("BLE001 ")


def test_fix_repairs_what_find_reports(tmp_path: pathlib.Path) -> None:
    text = '"""A module."""\n\nimport os\n\nX = [ 1,2 ]\n'
    files = sample_tree.write(tmp_path, {"a.py": text}, "pyproject.toml")
    problems = python_style.find(files)
    assert sorted(each.what.split()[0] for each in problems) == ["F401", "unformatted"]
    assert all("--fix" in each.next_step for each in problems)
    python_style.fix(files)
    assert python_style.find(files) == set()
    assert (tmp_path / "a.py").read_text() == '"""A module."""\n\nX = [1, 2]\n'


def test_syntax_error(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.py": '"""A module."""\n\ndef (:\n'}, "pyproject.toml")
    problem = min(python_style.find(files))
    assert (problem.path, problem.line) == ("a.py", 3)
    assert problem.what.startswith("invalid-syntax ")


def test_wrong_settings_are_the_environments(tmp_path: pathlib.Path) -> None:
    settings = '[tool.ruff.lint]\nselect = ["NO-SUCH-RULE"]\n'
    files = sample_tree.write(tmp_path, {"a.py": _CLEAN, "pyproject.toml": settings})
    with pytest.raises(finding.EnvironmentProblem, match="NO-SUCH-RULE"):
        python_style.find(files)
