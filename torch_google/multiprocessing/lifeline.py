# SPDX-License-Identifier: Apache-2.0
"""A pipe that nobody writes to: when the process that holds it ends, the kernel kills all that hang on it.

A child asks the kernel for SIGKILL as the signal of "something happened to this pipe", and only one
thing can: its last writer is gone. That works whatever the child does, also in C code that holds the
interpreter's lock, however the parent ended, and whichever of its threads started the child. The
kernel's own PR_SET_PDEATHSIG follows the thread that forked, and of a forkserver's child it would watch
the server. Linux only.
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
    """The writing end that a process holds: found through /proc, which a reused id cannot fake."""

    pid: int
    descriptor: int
    inode: int


_mine: Line | None = None
_inherited: Line | None = None


def line() -> Line:
    """Return the line of this process, made when first asked for."""
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
    """From now on this process dies with the one that holds `parents`; at once if that is gone."""
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
    if watch.poll(0):  # it ended before the kernel was asked
        _die()


def die_with_parent() -> None:
    """Die with a parent that holds no line and is no fork of this program, as torchrun's agent.

    The kernel watches the thread that started this process: of the agent that is its main one.
    """
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent:
        _die()


def forget() -> None:
    """In a process that was forked: let go of the parent's end, which only the parent may hold."""
    global _mine, _inherited
    if _mine is not None:
        with contextlib.suppress(OSError):
            os.close(_mine.descriptor)
    _inherited, _mine = _mine, None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
