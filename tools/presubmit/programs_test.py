# SPDX-License-Identifier: Apache-2.0
import collections.abc
import importlib.metadata
import os
import pathlib
import sys

import pytest

from tools.presubmit import finding, programs


@pytest.mark.parametrize("command", [programs.ruff, programs.clang_format])
def test_found_among_our_packages_and_not_on_path(
    command: collections.abc.Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (program,) = command()
    assert os.path.isabs(program)
    assert programs.run([program], ["--version"], root=tmp_path).stdout


def test_mypy_runs_under_this_interpreter(tmp_path: pathlib.Path) -> None:
    assert programs.mypy()[0] == sys.executable
    assert programs.run(programs.mypy(), ["--version"], root=tmp_path).stdout.startswith("mypy ")


@pytest.mark.parametrize("command", [programs.ruff, programs.clang_format])
def test_absent_package_names_the_way_to_start(
    command: collections.abc.Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(finding.EnvironmentProblem, match="bazelw run //tools/presubmit"):
        command()


def test_unexpected_status_carries_the_programs_words(tmp_path: pathlib.Path) -> None:
    with pytest.raises(finding.EnvironmentProblem, match="sh ended with 7: no such option"):
        programs.run(["/bin/sh"], ["-c", "echo no such option >&2; exit 7"], root=tmp_path)


def test_program_that_does_not_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(finding.EnvironmentProblem, match="cannot start absent"):
        programs.run([str(tmp_path / "absent")], [], root=tmp_path)
