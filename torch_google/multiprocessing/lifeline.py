# SPDX-License-Identifier: Apache-2.0
"""A pipe that makes the kernel kill child processes when the process that holds it ends.

Nothing is ever written to the pipe. A child asks the kernel to send it SIGKILL as the pipe's I/O
signal; the only possible event is that the last writer is gone. This works while C code holds the
GIL, however the parent ends, and whichever thread starts the child. PR_SET_PDEATHSIG would watch
the thread that forked or, for a child of a forkserver, the server. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
from dataclasses import dataclass

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Line:
    """The write end that a process holds. The inode number detects a reused process id."""

    pid: int
    descriptor: int
    inode: int


_mine: Line | None = None
_inherited: Line | None = None


def line() -> Line:
    """Return this process's line, created on first use."""
    global _mine
    if _mine is None:
        reader, writer = os.pipe()
        os.close(reader)
        _mine = Line(os.getpid(), writer, os.fstat(writer).st_ino)
    return _mine


def inherited() -> Line:
    """Return the line of the process that forked this one. Raises RuntimeError if it had none."""
    if _inherited is None:
        raise RuntimeError(f"process {os.getpid()} was not forked by one that holds a line")
    return _inherited


def hang_on(parents: Line) -> None:
    """Make this process die when the holder of `parents` dies, or now if it already has."""
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
    if watch.poll(0):  # the parent ended before fcntl took effect
        _die()


def die_with_parent() -> None:
    """Die with a parent that holds no line: another program, such as torchrun's agent.

    The kernel watches the parent's thread that started this process: in the agent, the main thread.
    """
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent:
        _die()


def forget() -> None:
    """Close the parent's write end in a forked process, because only the parent may hold it."""
    global _mine, _inherited
    if _mine is not None:
        with contextlib.suppress(OSError):
            os.close(_mine.descriptor)
    _inherited, _mine = _mine, None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
