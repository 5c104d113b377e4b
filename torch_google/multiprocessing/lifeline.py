# SPDX-License-Identifier: Apache-2.0
"""The lifeline: a pipe through which the kernel kills child processes when their parent dies.

The parent holds the write end, but nothing is ever written. Each child opens the read end and makes
the kernel send it SIGKILL on an I/O event. The only possible event is that the last writer is gone.
This works however the parent dies, whichever thread starts the child, and even while C code holds
the GIL, but only on Linux. PR_SET_PDEATHSIG would instead watch the thread that forked the child,
or the fork server.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1  # the value in linux/prctl.h


@dataclass(frozen=True)
class Line:
    """The write end of a process's lifeline. The inode number reveals whether `pid` was reused."""

    pid: int
    descriptor: int
    inode: int


_mine: Line | None = None
_inherited: Line | None = None


def line() -> Line:
    """Return this process's lifeline, which is created on first use."""
    global _mine
    if _mine is None:
        reader, writer = os.pipe()
        os.close(reader)
        _mine = Line(os.getpid(), writer, os.fstat(writer).st_ino)
    return _mine


def inherited() -> Line:
    """Return the lifeline of the parent that forked this process.

    Raises RuntimeError if the parent has none.
    """
    if _inherited is None:
        raise RuntimeError(f"process {os.getpid()} was not forked by one that holds a line")
    return _inherited


def hang_on(parents: Line) -> None:
    """Make the kernel kill this process when the process that owns the lifeline `parents` dies.

    If that process is already dead, kill this process now.
    """
    try:
        descriptor = os.open(
            f"/proc/{parents.pid}/fd/{parents.descriptor}",
            os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC,
        )
    except (FileNotFoundError, ProcessLookupError):
        _die()
    if os.fstat(descriptor).st_ino != parents.inode:
        _die()
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    watch = select.poll()
    watch.register(descriptor, 0)
    if watch.poll(0):  # the parent died before fcntl took effect
        _die()


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent dies, without a lifeline.

    The parent may be torchrun's agent, for example. The kernel watches the thread that
    started this process; in the agent, that is the main thread.
    """
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent:
        _die()


def forget() -> None:
    """Close a forked process's inherited write end, which only the parent may keep open."""
    global _mine, _inherited
    if _mine is not None:
        with contextlib.suppress(OSError):
            os.close(_mine.descriptor)
    _inherited, _mine = _mine, None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
