# SPDX-License-Identifier: Apache-2.0
"""Directories that only this user can write to, each with an open descriptor and a lock.

If other users can write to a directory, any name in it may be a link or another user's directory,
and may change at any moment. So every step is relative to an open descriptor and follows no link. A
directory is used only if it belongs to this user and no other user can write to it.

In a shared directory without the sticky bit, another user can also rename any of this user's
directories to a private directory's name. So private directories get the sticky bit as a mark when
they are created, and a directory without the mark is not used.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import uuid
from collections.abc import Callable
from enum import Enum, auto

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# The sticky bit marks private directories. It has no other effect on them, because only their owner
# can write to them.
_MODE = stat.S_ISVTX | stat.S_IRWXU
# Errors from flock on network filesystems that do not support locks.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})


class Lock(Enum):
    """The result of trying to lock a directory."""

    TAKEN = auto()
    BUSY = auto()
    # The filesystem does not support locks.
    UNSUPPORTED = auto()


class PrivateDirectory:
    """An open directory `name` in the open directory `parent`. `close()` also releases its lock."""

    def __init__(self, parent: int, name: str, descriptor: int) -> None:
        """Take ownership of `descriptor`, but not of `parent`."""
        self.name = name
        self.descriptor = descriptor
        self._parent = parent

    def lock(self) -> Lock:
        """Try to lock the directory. Closing all copies of the descriptor releases the lock."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Lock.BUSY
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return Lock.UNSUPPORTED
        return Lock.TAKEN

    def is_in_place(self) -> bool:
        """Return whether the name still refers to this directory."""
        try:
            status = os.stat(self.name, dir_fd=self._parent, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(self.descriptor))

    def entries(self) -> dict[str, os.stat_result]:
        """Return the status of each entry, by name, without following links."""
        statuses = {}
        for name in os.listdir(self.descriptor):
            with contextlib.suppress(FileNotFoundError):
                statuses[name] = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        return statuses

    def clear(self, *, belongs: Callable[[str], bool]) -> bool:
        """Remove the directory's files. If any entry is foreign, remove none and return False.

        A foreign entry is a directory, or a file whose name `belongs` rejects.
        """
        statuses = self.entries()
        if not all(belongs(name) and not stat.S_ISDIR(statuses[name].st_mode) for name in statuses):
            return False
        for name in statuses:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self.descriptor)
        return True

    def remove(self) -> bool:
        """Remove the directory if it is empty and was not renamed. Return whether it is gone."""
        if not self.is_in_place():
            return False
        try:
            os.rmdir(self.name, dir_fd=self._parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.ENOTDIR):
                raise
            return False
        return True

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


def open_directory(path: str) -> int:
    """Return a descriptor for use as `dir_fd`. This needs no permission to list the directory."""
    return os.open(path or os.curdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def create_private(parent: int, name: str) -> None:
    """Create a private directory. Raises FileExistsError if the name is taken."""
    os.mkdir(name, _MODE, dir_fd=parent)


def open_private(parent: int, name: str, *, created: bool = False) -> PrivateDirectory | None:
    """Open a private directory, or return None if `name` is not one.

    It is not one if it is a link, a file, a directory that other users can write to, or a directory
    without the sticky bit. `created` means that this process has just created it, so it may lack
    the sticky bit. Raises FileNotFoundError if the name does not exist.
    """
    try:
        descriptor = os.open(name, _OPEN, dir_fd=parent)
    except (NotADirectoryError, PermissionError):
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return None
    try:
        status = os.fstat(descriptor)
        private = _is_private(status, os.geteuid(), 0)
        marked = created or bool(status.st_mode & stat.S_ISVTX)
        if (private and marked) or (created and _is_as_private(parent, status)):
            return PrivateDirectory(parent, name, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def path_at(directory: int, name: str, otherwise: str) -> str:
    """Return a path to `name` through an open directory, or `otherwise` on a system without /proc.

    The path stays valid if the directory is renamed. It works in this process and its forks while
    the descriptor is open.
    """
    through = f"/proc/self/fd/{directory}"
    return os.path.join(through, name) if os.path.isdir(through) else otherwise


def _is_private(status: os.stat_result, owner: int, ignored: int) -> bool:
    return status.st_uid == owner and not status.st_mode & _WRITABLE_BY_OTHERS & ~ignored


def _is_as_private(parent: int, status: os.stat_result) -> bool:
    """Return whether a new directory has the owner and mode that this user's files get in `parent`.

    NFS may show root's files as another user's, and FAT has neither owners nor permissions. So this
    function creates a file, which this user must own, and compares owners and modes.
    """
    name = f".{uuid.uuid4().hex}.partial-{uuid.uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    probe = os.open(name, flags, 0o600, dir_fd=parent)
    try:
        expected = os.fstat(probe)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(expected, os.stat(name, dir_fd=parent, follow_symlinks=False)):
                os.unlink(name, dir_fd=parent)
    finally:
        os.close(probe)
    return _is_private(status, expected.st_uid, expected.st_mode)
