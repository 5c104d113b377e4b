# SPDX-License-Identifier: Apache-2.0
"""Open a file for appending in a directory that other users can write to."""

from __future__ import annotations

import errno
import os
import secrets
import stat

# The number of alternative names to try if the first name is taken.
_MOST_NAMES = 8
# The errors from opening a link, a pipe without a reader, a directory, another user's file, or a
# deleted file.
_NOT_OWN = frozenset(
    {errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENXIO, errno.EPERM}
)


def open_own(path: str) -> tuple[str, int]:
    """Open a new file, or one that this user owns, for appending; return its path and descriptor.

    In a directory such as /tmp, another user may have planted a link, a pipe or a file under this
    name. If so, leave that untouched, and open a new file with an unguessable suffix.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    for candidate in (path, *(f"{path}.{secrets.token_hex(8)}" for _ in range(_MOST_NAMES))):
        try:
            # With O_EXCL, this process must have created the file, so its owner needs no check.
            return candidate, os.open(candidate, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            opened = _open_existing(candidate, flags)
        if opened is not None:
            return candidate, opened
    raise FileExistsError(
        errno.EEXIST, "other users took every name that was tried; use your own directory", path
    )


def _open_existing(path: str, flags: int) -> int | None:
    try:
        opened = os.open(path, flags)
    except OSError as error:
        if error.errno not in _NOT_OWN:
            raise
        return None
    status = os.fstat(opened)
    # A file with several hard links may be another of this user's files, linked by an attacker.
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
        return opened
    os.close(opened)
    return None
