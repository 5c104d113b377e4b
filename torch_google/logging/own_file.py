# SPDX-License-Identifier: Apache-2.0
"""A file of this user to append to, in a directory in which others may have put anything."""

from __future__ import annotations

import errno
import os
import secrets
import stat

# How often another name is tried for a file whose name is taken.
_MOST_NAMES = 8
# Errors of a name that is a link, a pipe without a reader, a directory, another user's, or just gone.
_NOT_OWN = frozenset(
    {errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENXIO, errno.EPERM}
)


def open_own(path: str) -> tuple[str, int]:
    """Open a file of this user to append to, new or not; return its path as well.

    A directory such as /tmp may have a link, a pipe or another user's file of that name, planted there: it is
    left alone, and a name is added to that nobody can guess.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for candidate in (path, *(f"{path}.{secrets.token_hex(8)}" for _ in range(_MOST_NAMES))):
        try:
            # What is created exclusively is this user's, whatever owner the filesystem shows.
            return candidate, os.open(candidate, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            opened = _open_existing(candidate, flags)
        if opened is not None:
            return candidate, opened
    raise FileExistsError(
        errno.EEXIST, "other users take each name; use a directory of yours", path
    )


def _open_existing(path: str, flags: int) -> int | None:
    try:
        opened = os.open(path, flags)
    except OSError as error:
        if error.errno not in _NOT_OWN:
            raise
        return None
    status = os.fstat(opened)
    # With a second link it may be any other file of this user.
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return opened
    os.close(opened)
    return None
