# SPDX-License-Identifier: Apache-2.0
"""Atomic replacement of a local file: write a temporary file, sync it, rename it.

While `DIR/NAME` is being written, its contents are in `DIR/.NAME.partial-MACHINE-0/NAME`. That
directory is on the same filesystem, so the rename is atomic. The file has its final name, because
some formats record the name. The writer locks the directory. The kernel releases the lock when the
writer exits, so the next writer of the same file recognizes a killed writer's leftovers and reuses
the directory. If the first writer is still alive, the second one uses the next number.

On NFS, only the machine that took the lock sees it. So MACHINE is an ID of the machine's current
boot, and leftovers from another machine stay until they are a day old.

Other users may be able to write to DIR; `private_directory.py` protects against them. Anything
else that has a temporary directory's name is left untouched, and the writer uses another name.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from functools import cache, partial
from typing import IO

from torch_google.gfile.attributes import is_planted, keep_attributes, warn_of_loss
from torch_google.gfile.private_directory import (
    Lock,
    PrivateDirectory,
    create_private,
    open_directory,
    open_private,
    path_at,
)

_NAME = re.compile(r"\.(.*)\.partial-(?:(?:([0-9a-f]{12})-)?\d+|[0-9a-f]{32})", re.DOTALL)
# Longer file names do not fit in a temporary directory's name, which is limited to 255 bytes.
_MAX_NAME_BYTES = 255 - len("..partial-") - 32
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Try numbered names first, then random ones, which other users cannot predict and so cannot occupy.
_MAX_NUMBERED = 64
_MAX_RANDOM = 64
# Linux follows at most this many links in a path.
_MAX_LINKS = 40
# Age in seconds at which files count as abandoned if no lock shows whether their writer is alive.
LITTER = 24 * 3600.0


def is_partial(name: str) -> bool:
    """Return whether `name` is a directory in which a file is, or was, being written."""
    return _NAME.fullmatch(name) is not None


def sweep(directory: str) -> None:
    """Remove the files that this user's killed writers left in a directory.

    Files from another machine, or from before the last boot, are removed once they are a day old.
    """
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(parent):
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                leftover = open_private(parent, name)
                if leftover is None:
                    continue
                try:
                    if match[2] == machine() or _is_litter(leftover):
                        _sweep(leftover, match[1])
                finally:
                    leftover.close()
    finally:
        os.close(parent)


def is_special(path: str) -> bool:
    """Return whether a path names an open descriptor rather than a directory entry."""
    return os.path.abspath(path).startswith(("/proc/", "/dev/fd/", "/dev/std"))


def open_in_place(target: str, mode: str) -> IO[bytes]:
    """Open a file in place, to append to it or because it is a pipe or a device.

    Raises PermissionError for a file or link that another user put into a sticky directory.
    """
    parent, name = _follow(target)
    path = os.path.join(parent, name)
    if is_special(path):
        return open(path, mode)
    directory = open_directory(parent)
    try:
        # Check the owner before opening the file, because opening a pipe may block, and again
        # afterwards, because the file may have been replaced in between.
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            _check_owner(status, directory, target)

        def open_entry(_: str, flags: int) -> int:
            return os.open(name, flags | os.O_NOFOLLOW, 0o666, dir_fd=directory)

        file = open(target, mode, opener=open_entry)  # noqa: SIM115 - returned
        try:
            _check_owner(os.fstat(file.fileno()), directory, target)
        except BaseException:
            file.close()
            raise
        return file
    finally:
        os.close(directory)


def refuse_planted(target: str) -> None:
    """Raise PermissionError if another user put the file or link into a sticky directory."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        parent, name = _follow(target)
        if not is_special(os.path.join(parent, name)):
            directory = open_directory(parent)
            try:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                _check_owner(status, directory, target)
            finally:
                os.close(directory)


class Partial:
    """A temporary file that replaces its target: write to `path`, then `commit` or `discard`.

    Raises an OSError, such as FileNotFoundError, if no directory can be created next to the target.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        target = os.fsdecode(target)
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if not target:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)
        # If the target is a link, replace the file that it points to, not the link.
        parent, self._name = _follow(target)
        self.target = os.path.join(os.path.realpath(parent), self._name)
        self.owner = os.getpid()
        self._open = True
        # `commit` renames the file into this open directory, even if the directory's path refers to
        # another directory by then.
        self._parent = open_directory(parent)
        try:
            self._directory = _claim(self._parent, self._name, target)
        except BaseException:
            os.close(self._parent)
            raise
        temporary = os.path.join(parent, self._directory.name, self._name)
        # A path for code that cannot use a descriptor. It goes through the descriptor of the
        # private directory, to which other users cannot write.
        self.path = path_at(self._directory.descriptor, self._name, os.path.abspath(temporary))

    def create(self, *, copy: bool = False) -> int:
        """Create the file and return a descriptor; with `copy`, start with the target's content."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_APPEND if copy else 0
        descriptor = os.open(self._name, flags, 0o666, dir_fd=self._directory.descriptor)
        if not copy:
            return descriptor
        try:
            with (
                contextlib.suppress(FileNotFoundError),
                open(os.open(self._name, _READ, dir_fd=self._parent), "rb") as old,
                open(descriptor, "wb", closefd=False) as new,
            ):
                shutil.copyfileobj(old, new, 1 << 20)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def reopen(self) -> int:
        """Open the file for reading. It may have been created through `path` by other code."""
        return os.open(self._name, _READ, dir_fd=self._directory.descriptor)

    def commit(self, *, sync: bool, exclusive: bool = False) -> None:
        """Replace the target. If `exclusive`, raise FileExistsError if the target exists."""
        name, lost = self._name, []
        ends = {"src_dir_fd": self._directory.descriptor, "dst_dir_fd": self._parent}
        try:
            descriptor = self.reopen()
            try:
                if not exclusive:
                    lost = keep_attributes(descriptor, self._parent, name, self.target)
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if exclusive:
                os.link(name, name, **ends, follow_symlinks=False)
            else:
                os.replace(name, name, **ends)
            warn_of_loss(self.target, lost)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the file and its directory; in a forked process, only close them. Idempotent."""
        if not self._open:
            return
        self._open = False
        try:
            # After a commit, the directory is empty unless native code left other files in it.
            if os.getpid() == self.owner and not self._directory.remove():
                self._directory.clear(belongs=lambda name: True)
                self._directory.remove()
        finally:
            self._directory.close()
            os.close(self._parent)


@cache
def machine() -> str:
    """Return an identifier of this machine's current boot or, without /proc, of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            identity = file.read().strip()
    except OSError:
        identity = socket.gethostname()
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


def _claim(parent: int, name: str, target: str) -> PrivateDirectory:
    """Return an empty directory for writing a file, locked so that no other process uses it."""
    shown = _shown(name)
    for candidate in _candidates(f".{shown}.partial-"):
        directory, created = _make(parent, candidate)
        if directory is None:
            continue
        lock = directory.lock()
        if lock is Lock.UNSUPPORTED and not created:
            directory.close()
            # Without locks, an existing directory may be in use: create one with a unique name.
            directory, created = _make(parent, f".{shown}.partial-{uuid.uuid4().hex}")
            if directory is None:
                continue
        if (
            lock is not Lock.BUSY
            and directory.is_in_place()
            and directory.clear(belongs=partial(_belongs, shown))
        ):
            return directory
        directory.close()
    raise PermissionError(
        errno.EACCES,
        "other users have taken every name for the temporary file; use a directory that only you "
        "can write",
        target,
    )


def _candidates(prefix: str) -> Iterator[str]:
    for number in range(_MAX_NUMBERED):
        yield f"{prefix}{machine()}-{number}"
    for _ in range(_MAX_RANDOM):
        yield f"{prefix}{machine()}-{secrets.randbelow(10**12)}"


def _make(parent: int, name: str) -> tuple[PrivateDirectory | None, bool]:
    """Create or open a private directory. Return it, and whether this call created it.

    The directory is None if `name` is not a private directory, or no longer exists.
    """
    try:
        create_private(parent, name)
        created = True
    except FileExistsError:
        created = False
    try:
        directory = open_private(parent, name, created=created)
    except FileNotFoundError:
        return None, False  # another process has just removed the directory
    if created and directory is None:
        with contextlib.suppress(OSError):  # another user may have replaced the directory
            os.rmdir(name, dir_fd=parent)
    return directory, created


def _sweep(leftover: PrivateDirectory, shown: str) -> None:
    lock = leftover.lock()
    # Clear the directory only if this process has acquired the lock. If locks are unsupported, the
    # writer may still be alive.
    if (
        lock is Lock.TAKEN
        and leftover.is_in_place()
        and leftover.clear(belongs=partial(_belongs, shown))
    ):
        leftover.remove()


def _is_litter(directory: PrivateDirectory) -> bool:
    times = [status.st_mtime for status in directory.entries().values()]
    latest = max([os.fstat(directory.descriptor).st_mtime, *times])
    return time.time() - latest > LITTER


def _shown(name: str) -> str:
    """Return the file's name, or its digest if a temporary directory's name cannot include it."""
    if len(os.fsencode(name)) <= _MAX_NAME_BYTES:
        return name
    return hashlib.sha1(os.fsencode(name), usedforsecurity=False).hexdigest()


def _belongs(shown: str, name: str) -> bool:
    """Return whether `name` is the file being written, even if native code appended a suffix."""
    return name.startswith(shown) or _shown(name) == shown


def _check_owner(status: os.stat_result, directory: int, target: str) -> None:
    if is_planted(status, os.fstat(directory)):
        raise PermissionError(
            errno.EACCES, "another user's file in a sticky directory; name another file", target
        )


def _follow(target: str) -> tuple[str, str]:
    """Resolve links at the end of a path; return the directory and the name.

    Raises PermissionError for another user's link in a sticky directory.
    """
    path = target
    for _ in range(_MAX_LINKS):
        parent, name = os.path.split(path.rstrip("/"))
        link = os.path.join(parent, name)
        if is_special(link) or not os.path.islink(link):
            return parent, name
        if is_planted(os.lstat(link), os.stat(parent or os.curdir)):
            raise PermissionError(
                errno.EACCES, "another user's link in a sticky directory; name its target", link
            )
        path = os.path.join(parent, os.readlink(link))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
