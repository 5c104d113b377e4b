# SPDX-License-Identifier: Apache-2.0
"""A PAR built with par_binary(doors = False) ignores the environment variables named PAR_*.

Callers cannot use such a PAR as a Python interpreter either.
"""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from tests.robustness import subject

CLOSED = subject.packed("tests/robustness/closed.par")


@pytest.mark.parametrize(
    ("door", "value"),
    [
        ("PAR_DEBUG", "1"),
        ("PAR_HELP", "1"),
        ("PAR_INFO", "1"),
        ("PAR_INTERPRETER", "1"),
        ("PAR_LIST", "1"),
        ("PAR_MAIN", "platform"),
        ("PAR_TRACE_IMPORTS", "1"),
        ("PAR_VERIFY", "1"),
    ],
)
def test_a_door_is_ignored(tmp_path: pathlib.Path, door: str, value: str) -> None:
    subject.run([CLOSED], environment={"HOME": str(tmp_path), door: value}).assert_ran()


def test_the_cache_is_not_chosen(tmp_path: pathlib.Path) -> None:
    environment = {"HOME": str(tmp_path), "PAR_CACHE_DIR": str(tmp_path / "named")}
    outcome = subject.run([CLOSED], environment=environment)
    outcome.assert_ran()
    assert outcome.seen["library"].startswith(f"{tmp_path}/.cache/par/")
    assert not (tmp_path / "named").exists()


def test_a_name_of_python_is_refused(tmp_path: pathlib.Path) -> None:
    link = tmp_path / "python3"
    link.symlink_to(CLOSED)
    arguments = ["-c", "print('code of the caller')"]
    subject.run([link, *arguments]).assert_refused(str(link), "has no doors")
    renamed = subprocess.run(
        ["python3", *arguments],
        executable=CLOSED,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (renamed.returncode, renamed.stdout) == (1, "")
    assert "has no doors" in renamed.stderr


def test_its_own_processes_are_interpreters(tmp_path: pathlib.Path) -> None:
    """multiprocessing starts sys.executable, a link named python3 that points to the PAR."""
    outcome = subject.run([CLOSED, "spawn"], environment={"HOME": str(tmp_path)})
    assert (outcome.status, outcome.out, outcome.err) == (0, "hello ['spawn']\n", "")
