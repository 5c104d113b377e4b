# SPDX-License-Identifier: Apache-2.0
"""Test support: kill a process, or make its disk fail, at the n-th file system call."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

from tools.importer.errors import EnvironmentProblem

# The functions of `os` that change the file system or make a change durable.
CALLS = ("open", "write", "fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir", "chmod")


def killed_at(number: int, action: Callable[[], object]) -> bool:
    """Run `action` in a child process that kills itself at its `number`-th call to any of CALLS.

    `number` counts from 0, and the call itself does not happen. Return whether the child was
    killed. If `action` makes fewer calls, it runs to completion and must not fail.
    """
    child = os.fork()
    if not child:
        _count(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        failed = True
        try:
            action()
            failed = False
        finally:
            os._exit(failed)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the action failed in the child"
    return False


def failing_at(number: int, code: int, action: Callable[[], object]) -> BaseException | None:
    """Run `action`; its `number`-th call to any of CALLS raises OSError(`code`).

    All other calls run normally. Return the exception that `action` raised, or None.
    """

    def fail() -> NoReturn:
        raise OSError(code, os.strerror(code))

    saved = _count(number, fail)
    try:
        action()
    except (OSError, EnvironmentProblem) as error:
        return error
    finally:
        for name, call in saved.items():
            setattr(os, name, call)
    return None


def disk_full_at(number: int, action: Callable[[], object]) -> BaseException | None:
    """Like `failing_at`, with the error for a full disk (ENOSPC)."""
    return failing_at(number, errno.ENOSPC, action)


def _count(number: int, strike: Callable[[], object]) -> dict[str, Any]:
    calls = 0

    def counted(call: Any) -> Any:
        def wrapped(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls - 1 == number:
                strike()
            return call(*args, **options)

        return wrapped

    saved = {name: getattr(os, name) for name in CALLS}
    for name, call in saved.items():
        setattr(os, name, counted(call))
    return saved
