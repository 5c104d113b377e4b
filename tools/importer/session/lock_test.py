# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.session.lock import lock


def test_a_second_command_is_told_which_process_is_at_work(tmp_path: Path) -> None:
    state = tmp_path / ".import"
    with (
        lock(state),
        pytest.raises(UserError, match=rf"another import.py \(process {os.getpid()}\)"),
        lock(state),
    ):
        pass
    assert not state.exists()
    with lock(state):
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    state = tmp_path / ".import"
    child = os.fork()
    if not child:
        with lock(state):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (state / "lock").exists()
    with lock(state):
        pass


def test_what_an_unfinished_command_keeps_stays(tmp_path: Path) -> None:
    state = tmp_path / ".import"
    with lock(state):
        (state / "state.json").write_bytes(b"{}")
    assert sorted(os.listdir(state)) == [".gitignore", "state.json"]
