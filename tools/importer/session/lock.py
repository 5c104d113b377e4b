# SPDX-License-Identifier: Apache-2.0
"""Allow one command at a time in a workspace. The kernel releases the lock if its holder exits."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.session.unfinished import replace_file

_NAME = "lock"
_IGNORE = ".gitignore"


@contextmanager
def lock(state: Path) -> Iterator[None]:
    """Hold the workspace's lock. If another command holds it, raise a UserError naming the process.

    Create the state directory with a .gitignore, and delete it at the end if nothing else is in it.
    """
    handle = _acquire(state)
    try:
        ignore = state / _IGNORE
        if not ignore.exists():
            replace_file(ignore, b"*\n")
        yield
    finally:
        if set(os.listdir(state)) <= {_NAME, _IGNORE}:
            (state / _IGNORE).unlink(missing_ok=True)  # delete it before the lock
        (state / _NAME).unlink(missing_ok=True)
        os.close(handle)
        with suppress(OSError):  # not empty: it contains state, or another command has started
            os.rmdir(state)


def _acquire(state: Path) -> int:
    path = state / _NAME
    while True:
        state.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # the last holder has just deleted the directory
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            raise UserError(
                f"{path}: another import.py (process {holder}) is running here. Wait until it ends"
            ) from None
        if _is(path, handle):
            os.ftruncate(handle, 0)
            os.pwrite(handle, b"%d\n" % os.getpid(), 0)
            return handle
        os.close(handle)  # the last holder has just deleted this lock file


def _is(path: Path, handle: int) -> bool:
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(status, os.fstat(handle))
