# SPDX-License-Identifier: Apache-2.0
"""Preserve the owner, group, permissions, ACL and extended attributes of a replaced file."""

from __future__ import annotations

import errno
import logging
import os
import stat

from torch_google.gfile.private_directory import path_at

_log = logging.getLogger("torch_google.gfile")
_ACL = "system.posix_acl_access"
# Extended attributes that certify the old content, so they must not be copied.
_CONTENT_ATTRIBUTES = frozenset({"security.capability", "security.evm", "security.ima"})
_NOT_PERMITTED = frozenset(
    {errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM, errno.EROFS}
)
_warned: set[str] = set()


def keep_attributes(new: int, parent: int, name: str, path: str) -> list[str]:
    """Copy the attributes of the file `name` in the directory `parent` to the open file `new`.

    Return descriptions of the attributes that could not be kept. If another user planted the old
    file in a sticky directory, none of its attributes are kept. `path` is the path of the old file.
    """
    try:
        old = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return []
    if not stat.S_ISREG(old.st_mode):
        return []
    if is_planted(old, os.fstat(parent)):
        reason = "it was another user's, in a sticky directory that every user can write"
        return [f"owner {old.st_uid}, group {old.st_gid} and permissions ({reason})"]
    lost = _keep_extended(new, path_at(parent, name, path))
    mode = stat.S_IMODE(old.st_mode)
    if not _keep_owner(new, gid=old.st_gid):
        lost.append(f"group {old.st_gid}")
        # Limit the new group to the permissions that every user has.
        mode &= ~stat.S_ISGID & ~(~(mode << 3) & stat.S_IRWXG)
    if not _keep_owner(new, uid=old.st_uid):
        lost.append(f"owner {old.st_uid}")
        mode &= ~stat.S_ISUID
    if stat.S_IMODE(os.fstat(new).st_mode) != mode:
        os.fchmod(new, mode)
    return lost


def warn_of_loss(path: str, lost: list[str]) -> None:
    """Log a warning that lists the lost attributes of a replaced file, once per path."""
    if lost and path not in _warned:
        _warned.add(path)
        _log.warning(
            "%s: replaced by user %d, who could not keep its %s; set them as root, or write "
            "the file in place with open()",
            *(path, os.geteuid(), ", ".join(lost)),
        )


def is_planted(status: os.stat_result, parent: os.stat_result) -> bool:
    """Return whether a third user owns a file or link in a sticky directory such as /tmp.

    A third user is neither this process's user nor the directory's owner. The kernel's
    fs.protected_symlinks and fs.protected_regular use the same rule.
    """
    shared = parent.st_mode & stat.S_ISVTX and parent.st_mode & stat.S_IWOTH
    return bool(shared) and status.st_uid not in (os.geteuid(), parent.st_uid)


def _keep_owner(new: int, *, uid: int = -1, gid: int = -1) -> bool:
    status = os.fstat(new)
    if uid in (-1, status.st_uid) and gid in (-1, status.st_gid):
        return True
    try:
        os.fchown(new, uid, gid)
    except OSError as error:
        if error.errno not in _NOT_PERMITTED:
            raise
        return False
    return True


def _keep_extended(new: int, old: str) -> list[str]:
    previous, present = _extended(old), _extended(new)
    lost = []
    for name in sorted(previous.keys() | {_ACL} & present.keys()):
        if name in _CONTENT_ATTRIBUTES or previous.get(name) == present.get(name):
            continue
        value = previous.get(name)
        try:
            if value is not None:
                os.setxattr(new, name, value)
            elif name in previous:
                lost.append(name)
            else:  # the new file has a default ACL; the old one had none
                os.removexattr(new, name)
        except OSError as error:
            if error.errno not in _NOT_PERMITTED:
                raise
            lost.append(name)
    return lost


def _extended(file: int | str) -> dict[str, bytes | None]:
    """Return the extended attributes of a file; an unreadable value is None."""
    follow = isinstance(file, int)  # a descriptor never refers to a link
    try:
        names = os.listxattr(file, follow_symlinks=follow)
    except OSError as error:
        if error.errno not in _NOT_PERMITTED | {errno.ENOENT}:
            raise
        return {}
    values: dict[str, bytes | None] = {}
    for name in names:
        try:
            values[name] = os.getxattr(file, name, follow_symlinks=follow)
        except OSError as error:
            if error.errno not in _NOT_PERMITTED | {errno.ENODATA, errno.ENOENT}:
                raise
            if error.errno in _NOT_PERMITTED:
                values[name] = None
    return values
