# SPDX-License-Identifier: Apache-2.0
"""Log to a directory in which another user has planted an entry with the log file's name."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from torch_google.logging import log_files
from torch_google.logging.log_files import LogFile

_NAME = "program.log"


def _link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def _dangling_link(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("created"))


def _hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def _pipe(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path, victim: Path) -> None:
    path.mkdir()


def _file_of_another(path: Path, victim: Path) -> None:
    path.touch()
    try:
        os.chown(path, 54321, 54321)
    except OSError as error:
        pytest.skip(f"this user cannot make a file another's: {error.strerror}")


_PLANTS = [_link, _dangling_link, _hard_link, _pipe, _directory, _file_of_another]


def _log(directory: Path, text: str) -> None:
    """Log one record on a separate thread, because opening a planted pipe could block."""

    def say() -> None:
        file = LogFile(str(directory), "program")
        file.handle(logging.makeLogRecord({"msg": text, "levelno": logging.WARNING}))
        file.close()

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive()


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_files, "file_name", lambda program: _NAME)
    shared = tmp_path / "logs"
    shared.mkdir()
    shared.chmod(0o1777)
    return shared


@pytest.mark.parametrize("plant", _PLANTS)
def test_nothing_that_was_planted_is_written(
    directory: Path, plant: Callable[[Path, Path], None]
) -> None:
    victim = directory.parent / "victim"
    victim.write_bytes(b"precious\n")
    plant(directory / _NAME, victim)
    _log(directory, "text")
    assert victim.read_bytes() == b"precious\n"
    assert not (directory.parent / "created").exists()
    planted, written = sorted(directory.iterdir())
    assert planted.name == _NAME
    assert written.name.startswith(f"{_NAME}.")
    assert written.read_text() == "text\n"
    if planted.is_file():
        assert planted.read_bytes() in (b"", b"precious\n")


def test_a_log_of_ones_own_is_continued(directory: Path) -> None:
    _log(directory, "one")
    _log(directory, "two")
    assert (directory / _NAME).read_text() == "one\ntwo\n"
    assert os.listdir(directory) == [_NAME]
