# SPDX-License-Identifier: Apache-2.0
"""A forked process writes to files of its own, in a store that both of them see."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from torch_google import gfile
from torch_google.logging.log_files import LogFile, remote_log


def _handlers(scheme: str) -> dict[str, Callable[[], logging.Handler]]:
    return {
        "a log of torch's": lambda: remote_log(f"{scheme}://torch.log"),
        "a log of the program": lambda: LogFile(f"{scheme}://logs", "program"),
    }


@pytest.mark.parametrize("which", ["a log of torch's", "a log of the program"])
def test_a_forked_process_overwrites_nothing(tmp_path: Path, which: str) -> None:
    scheme = "both" if which == "a log of torch's" else "each"
    gfile.register_scheme(scheme, DirFileSystem(str(tmp_path), LocalFileSystem()))
    handler = _handlers(scheme)[which]()

    def say(text: str) -> None:
        handler.handle(logging.makeLogRecord({"msg": text, "levelno": logging.WARNING}))

    say("before the fork")
    child = os.fork()
    if child == 0:
        say("in the child")
        handler.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    say("after the fork")
    handler.close()
    parts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(parts) == ["before the fork\nafter the fork\n", "in the child\n"]
