# SPDX-License-Identifier: Apache-2.0
"""A pipe that makes the kernel kill child processes when the process that holds it ends.

Nothing is ever written to the pipe. A child asks the kernel for a signal on I/O events of the pipe,
and chooses SIGKILL as that signal. The only event that can occur is that the last writer is gone.
This works however the parent ends, whichever thread starts the child, and while C code holds the
GIL. PR_SET_PDEATHSIG would instead watch the thread that forked, or the server if a forkserver
forked. Linux only.
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
    """The pipe's write end in one process. The inode number detects a reused process id."""

    pid: int
    descriptor: int
    inode: int


_mine: Line | None = None
_inherited: Line | None = None


def line() -> Line:
    """Return this process's lifeline, created on first use."""
    global _mine
    if _mine is None:
        reader, writer = os.pipe()
        os.close(reader)
        _mine = Line(os.getpid(), writer, os.fstat(writer).st_ino)
    return _mine


def inherited() -> Line:
    """Return the parent's lifeline in a forked process. Raises RuntimeError if there is none."""
    if _inherited is None:
        raise RuntimeError(f"process {os.getpid()} was not forked by one that holds a line")
    return _inherited


def hang_on(parents: Line) -> None:
    """Tie this process to the holder of `parents`: die when it dies, or now if it already has."""
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
    """Die with a parent that holds no lifeline, such as torchrun's agent.

    The kernel watches the thread that started this process; in the agent, that is the main thread.
    """
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent:
        _die()


def forget() -> None:
    """Close the parent's write end in a forked process: only the parent may keep it open."""
    global _mine, _inherited
    if _mine is not None:
        with contextlib.suppress(OSError):
            os.close(_mine.descriptor)
    _inherited, _mine = _mine, None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
