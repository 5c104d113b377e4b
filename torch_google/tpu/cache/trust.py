# SPDX-License-Identifier: Apache-2.0
"""Opens only files that no other user could have written, because cache entries are machine code.

A check and the read that follows use the same file descriptor, so there is no race between them.
The parents of the cache directory are not checked: a user who can rename the directory still cannot
replace it with one that the current user or root owns.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FILE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would block until a process opens it for writing.
_ENTRY_FLAGS = os.O_RDONLY | os.O_NONBLOCK | FILE_FLAGS
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS = 8
_WRITERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedDirectory(PermissionError):
    """Raised if another user owns or can write to a cache directory, or owns a symlink to it."""


class UntrustedEntry(PermissionError):
    """Raised if an entry is not a regular file, or if another user owns it or can write to it."""


def open_directory(path: Path, *, below: int | None = None) -> int:
    """Return a descriptor for a directory, after checking its owner and mode.

    `below` is a descriptor for the parent directory. If it is given, `path` must not be a symlink.
    The cache directory itself may be a symlink if the current user or root owns the symlink; its
    target is then checked. Any other symlink is rejected, because its owner could point it at a
    directory that happens to pass this check.
    """
    try:
        if below is None:
            handle = _open_named(path, _MAX_LINKS)
        else:
            handle = os.open(path.name, _DIRECTORY_FLAGS | os.O_NOFOLLOW, dir_fd=below)
    except OSError as error:
        if below is not None and error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise UntrustedDirectory(f"{path} is a link or a file. Remove it") from error
        raise
    try:
        check_owner(os.fstat(handle), path, UntrustedDirectory)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _open_named(path: Path, links: int) -> int:
    try:
        return os.open(path, _DIRECTORY_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR) or not links:
            raise
    link = os.open(path, os.O_PATH | FILE_FLAGS)
    try:
        status = os.fstat(link)
        if not stat.S_ISLNK(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        if status.st_uid not in (os.geteuid(), 0):
            raise UntrustedDirectory(
                f"{path} is a link of user {status.st_uid}, who would decide what this process runs"
            )
        target = os.readlink("", dir_fd=link)
    finally:
        os.close(link)
    return _open_named(path.parent / target, links - 1)


def open_entry(name: str, folder: int, path: Path) -> int:
    """Return a descriptor for a regular file in a directory. `path` is only for error messages."""
    try:
        handle = os.open(name, _ENTRY_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UntrustedEntry(f"{path} is not a regular file") from error
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedEntry(f"{path} is not a regular file")
        check_owner(status, path, UntrustedEntry)
    except BaseException:
        os.close(handle)
        raise
    return handle


def check_owner(status: os.stat_result, path: Path, refusal: type[PermissionError]) -> None:
    """Raise `refusal` if a user except the current one and root owns a file or can write to it."""
    if status.st_uid not in (os.geteuid(), 0):
        raise refusal(
            f"{path} belongs to user {status.st_uid}, who would decide what this process runs"
        )
    if status.st_mode & _WRITERS:
        raise refusal(
            f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):04o}), who would "
            f"decide what this process runs. Run: chmod go-w {path}"
        )
