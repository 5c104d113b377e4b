# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit import finding
from tools.presubmit.checks import c_format, sample_tree

_CLEAN = "int Twice(int x) { return 2 * x; }\n"
_UGLY = "int Once(int x) { return x; }\nint  Twice( int x ){return 2*x;}\n"


def test_accepts(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.cc": _CLEAN, "a.h": _CLEAN}, ".clang-format")
    assert [*c_format.find(files)] == []


def test_one_finding_per_file_at_its_first_line(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.cc": _CLEAN, "b.c": _UGLY}, ".clang-format")
    (problem,) = c_format.find(files)
    assert (problem.path, problem.line, problem.what) == ("b.c", 2, "not formatted")


def test_fix(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"b.c": _UGLY}, ".clang-format")
    c_format.fix(files)
    assert [*c_format.find(files)] == []
    assert (tmp_path / "b.c").read_text().endswith(f"\n{_CLEAN}")


def test_wrong_settings_are_the_environments(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"a.c": _CLEAN, ".clang-format": "Nonsense: 1\n"})
    with pytest.raises(finding.EnvironmentProblem, match="Nonsense"):
        [*c_format.find(files)]
