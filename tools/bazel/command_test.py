# SPDX-License-Identifier: Apache-2.0
"""Test commands that succeed, fail, hang, or leave a child that holds a lock."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tools.bazel import command


def test_returns_stdout() -> None:
    assert command.run(["sh", "-c", "echo out; echo err >&2"], seconds=5) == "out\n"


def test_passes_environment_and_directory(tmp_path: Path) -> None:
    answer = command.run(
        ["sh", "-c", 'echo "$WORD $PWD"'], seconds=5, cwd=tmp_path, env={"WORD": "x"}
    )
    assert answer.split() == ["x", str(tmp_path)]


def test_error_names_tool_status_and_stderr() -> None:
    with pytest.raises(command.CommandError, match=r"^sh: exit 3: no such mirror$"):
        command.run(["sh", "-c", "echo no such mirror >&2; exit 3"], seconds=5)


def test_error_is_one_line_without_warnings() -> None:
    with pytest.raises(command.CommandError) as caught:
        command.run(["sh", "-c", "printf 'W: old\\nE: one\\nE: two\\n' >&2; exit 1"], seconds=5)
    assert str(caught.value) == "sh: exit 1: E: one; E: two"


def test_a_missing_tool_is_named() -> None:
    with pytest.raises(command.CommandError, match=r"^no-such-tool: not found on PATH$"):
        command.run(["no-such-tool"], seconds=5)


def test_a_hanging_tool_ends_in_time() -> None:
    # If `run` did not stop the tool, this test would exceed its own time limit.
    with pytest.raises(command.CommandError, match=r"^sleep: no answer in 1 s$"):
        command.run(["sleep", "10000"], seconds=1)


def test_a_held_lock_outlives_its_opener(tmp_path: Path) -> None:
    path, pipe = tmp_path / "lock", tmp_path / "pipe"
    os.mkfifo(pipe)
    with path.open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        # The background process keeps the lock's descriptor open, as apt does if bazelw is killed.
        # The background process exits after this process has opened and closed the pipe.
        script = f"cat '{pipe}' >/dev/null 2>&1 &"
        command.run(["sh", "-c", script], seconds=300, hold=[first.fileno()])
    with path.open("a") as second:
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pipe.write_bytes(b"")
        fcntl.flock(second, fcntl.LOCK_EX)
