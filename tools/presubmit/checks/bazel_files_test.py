# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys
import types

import pytest

from tools.presubmit import finding, programs
from tools.presubmit.checks import bazel_files, sample_tree


def _buildifier() -> bool:
    try:
        programs.buildifier()
    except finding.EnvironmentProblem:
        return False
    return True


needs_buildifier = pytest.mark.skipif(
    not _buildifier(), reason="buildifier could not be fetched here: no npm and no upstream host"
)


@needs_buildifier
def test_accepts(tmp_path: pathlib.Path) -> None:
    contents = {"BUILD": 'exports_files(["a.txt"])\n', "MODULE.bazel": 'module(name = "a")\n'}
    assert [*bazel_files.find(sample_tree.write(tmp_path, contents))] == []


@needs_buildifier
def test_format_and_its_fix(tmp_path: pathlib.Path) -> None:
    files = sample_tree.write(tmp_path, {"lib/BUILD": "exports_files(['a.txt'])\n"})
    (problem,) = bazel_files.find(files)
    assert (problem.path, problem.what) == ("lib/BUILD", "not formatted")
    bazel_files.fix(files)
    assert [*bazel_files.find(files)] == []


@needs_buildifier
def test_lint_is_placed(tmp_path: pathlib.Path) -> None:
    text = '"""Rules."""\n\nload("//a:b.bzl", "used", "unused")\n\nX = used\n'
    problems = [*bazel_files.find(sample_tree.write(tmp_path, {"a.bzl": text}))]
    assert [(each.line, each.what) for each in problems] == [
        (1, "not formatted"),
        (3, 'load: Loaded symbol "unused" is unused. Please remove it.'),
    ]


@needs_buildifier
def test_syntax_error(tmp_path: pathlib.Path) -> None:
    (problem,) = bazel_files.find(sample_tree.write(tmp_path, {"BUILD": "exports_files([\n"}))
    assert problem.path == "BUILD"
    assert "syntax error" in problem.what


def test_one_that_was_not_fetched_says_what_was_tried(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = types.SimpleNamespace(PROGRAM=None, WHY_NOT="npm: not found")
    monkeypatch.setitem(sys.modules, "bazel_buildifier", absent)
    with pytest.raises(finding.EnvironmentProblem, match=r"npm: not found; .*bazelw fetch"):
        [*bazel_files.find(sample_tree.write(tmp_path, {"BUILD": ""}))]
