# SPDX-License-Identifier: Apache-2.0
"""Test the launcher in a real shell, with programs that print their arguments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.bazel.launcher import Launcher, write_atomically


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "a bazel"
    write_atomically(path, '#!/bin/sh\nprintf "%s|" "$@" "$USE_BAZEL_VERSION"\n', mode=0o755)
    return path


def _start(
    program: Path, tmp_path: Path, *arguments: str, version: str = ""
) -> subprocess.CompletedProcess[str]:
    launcher = Launcher(
        program=program,
        version="7.7.1",
        source="a test",
        startup_options=("--first",),
        environment={"USE_BAZEL_VERSION": "7.7.1"},
    )
    script = tmp_path / "launch"
    write_atomically(script, launcher.script(rc=tmp_path / "rc"), mode=0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    if version:
        environment["USE_BAZEL_VERSION"] = version
    return subprocess.run(
        [script, tmp_path / "workspace", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_options_come_first_and_words_stay_whole(program: Path, tmp_path: Path) -> None:
    answer = _start(program, tmp_path, "build", "a b", "")
    assert answer.stdout == f"--first|--bazelrc={tmp_path}/rc|build|a b||7.7.1|"


def test_the_user_environment_wins(program: Path, tmp_path: Path) -> None:
    assert _start(program, tmp_path, "info", version="6.0.0").stdout.endswith("|info|6.0.0|")


@pytest.mark.parametrize(
    ("user", "bazel"),
    [
        ({}, "C.UTF-8"),
        ({"LANG": "C"}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"}, "C.UTF-8"),
        ({"LANG": "de_DE.UTF-8"}, ""),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, ""),
        ({"LC_ALL": "en_US.ISO-8859-1"}, "en_US.ISO-8859-1"),
    ],
)
def test_an_ascii_locale_becomes_utf8(tmp_path: Path, user: dict[str, str], bazel: str) -> None:
    program = tmp_path / "bazel"
    write_atomically(program, '#!/bin/sh\necho "${LC_ALL:-}"\n', mode=0o755)
    script = tmp_path / "launch"
    launcher = Launcher(program=program, version="7.7.1", source="a test")
    write_atomically(script, launcher.script(rc=tmp_path / "rc"), mode=0o755)
    environment = {"PATH": os.environ["PATH"], **user}
    answer = subprocess.run(
        [script, tmp_path, "info"], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout == f"{bazel}\n"


def test_version_starts_nothing(program: Path, tmp_path: Path) -> None:
    assert _start(program, tmp_path, "--version").stdout == "bazel 7.7.1\n"


@pytest.mark.parametrize("file", ["workspace/.bazelrc.user", "home/.bazelrc"])
def test_a_disk_cache_of_the_user_wins(program: Path, tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text("# build --disk_cache=/commented\n")
    assert f"--bazelrc={tmp_path}/rc|" in _start(program, tmp_path, "build").stdout
    path.write_text("build --disk_cache=/mine\n")
    assert _start(program, tmp_path, "build").stdout == "--first|build|7.7.1|"


def test_a_program_that_is_gone(program: Path, tmp_path: Path) -> None:
    program.unlink()
    answer = _start(program, tmp_path, "build")
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"bazelw: {program} no longer exists.")
    assert str(tmp_path / "launch") in answer.stderr


def test_a_write_replaces_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, "one")
    write_atomically(path, "two", mode=0o755)
    assert path.read_text() == "two"
    assert os.access(path, os.X_OK)
    assert list(path.parent.iterdir()) == [path]
