# SPDX-License-Identifier: Apache-2.0
"""Run code as a second user in tests: in a forked process with a different user ID."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

UID = 54321
GID = 54322


def _is_mapped(kind: str, number: int) -> bool:
    """Return whether a user or group ID exists in this process's user namespace."""
    with open(f"/proc/self/{kind}_map", encoding="ascii") as lines:
        ranges = [[int(word) for word in line.split()] for line in lines]
    return any(first <= number < first + count for first, _, count in ranges)


needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not _is_mapped("uid", UID) or not _is_mapped("gid", GID),
    reason="only root can start a process of another user, and only if that user id exists",
)


def run_as_other(
    directory: str | os.PathLike[str], action: Callable[[], object], *, groups: Iterable[int] = ()
) -> None:
    """Run `action` in `directory` as the other user. Raises AssertionError if `action` raises."""
    child = _fork(directory, action, groups)
    assert os.waitpid(child, 0)[1] == 0, "the other user's process failed: see standard error"


@contextmanager
def repeated_by_other(
    directory: str | os.PathLike[str], action: Callable[[], object]
) -> Iterator[None]:
    """Repeat `action` as the other user during the `with` block, and ignore its OSErrors."""

    def repeat() -> None:
        while True:
            try:
                action()
            except OSError:
                continue

    child = _fork(directory, repeat, ())
    try:
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the other user's process has ended"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _fork(
    directory: str | os.PathLike[str], action: Callable[[], object], groups: Iterable[int]
) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.chdir(directory)  # while still root, because the other user may lack access
        os.setgroups([*groups])
        os.setgid(GID)
        os.setuid(UID)
        os.umask(0)
        action()
        status = 0
    except BaseException:  # noqa: BLE001 - the fork must not continue as pytest
        traceback.print_exc()
    finally:
        os._exit(status)
