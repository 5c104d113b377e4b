# SPDX-License-Identifier: Apache-2.0
"""A file of this machine that appears whole: written aside, synced, renamed.

While `DIR/NAME` is written it is `DIR/.NAME.partial-MACHINE-0/NAME`: the same filesystem, so that
the rename is atomic, and the same last component, since some formats record it. The writer holds a lock
on that directory. The lock dies with the process, so the next writer of the same file recognises the
leftovers of a killed one, and takes its place; a live one's are left alone, and the next number used.

On NFS such a lock is known to its own machine only. So each machine, from one boot to the next, has names
of its own, and leftovers with another machine's name are left alone until they are old.

DIR may be writable for others: `private_directory.py` has the rules. A name that is taken by anything but a
private directory of this user is left alone as well.
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
# Bytes of a name that most filesystems allow, less those that a partial one adds.
_LONGEST_NAME = 255 - len("..partial-") - 32
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Names that are tried in order, then unpredictable ones, which nobody else can take first.
_MOST_NUMBERED = 64
_MOST_RANDOM = 64
# As many links as the kernel follows.
_MOST_LINKS = 40
# Leftovers this old (seconds) are a dead writer's, if no lock can tell.
LITTER = 24 * 3600.0


def is_partial(name: str) -> bool:
    """Return whether a name is that of a directory of a file being written, or of its leftovers."""
    return _NAME.fullmatch(name) is not None


def sweep(directory: str) -> None:
    """Remove this user's leftovers of killed writers from a directory; files being written stay.

    Those of another machine, or from before this one was last started, go when they are a day old.
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
    """Return whether a path leads to a descriptor of a process, not to a directory's entry."""
    return os.path.abspath(path).startswith(("/proc/", "/dev/fd/", "/dev/std"))


def open_in_place(target: str, mode: str) -> IO[bytes]:
    """Open a file that is not replaced: one to append to, a pipe or a device.

    Raises PermissionError for a link, or any other file, that another user put into a sticky directory.
    """
    parent, name = _follow(target)
    path = os.path.join(parent, name)
    if is_special(path):
        return open(path, mode)
    directory = open_directory(parent)
    try:
        # First by name, because to open a pipe waits for its reader; then by descriptor, for a race.
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
    """Raise PermissionError if another user put the file, or a link to it, into a sticky directory."""
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
    """The file at `path` may be written by any code; then either `commit` or `discard`.

    Raises what creating a directory next to the target raises: FileNotFoundError, PermissionError, ...
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        target = os.fsdecode(target)
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        if not target:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)
        # A link stays a link: its target is replaced.
        parent, self._name = _follow(target)
        self.target = os.path.join(os.path.realpath(parent), self._name)
        self.owner = os.getpid()
        self._open = True
        # Whatever becomes of the path, the file appears in the directory that was there at the beginning.
        self._parent = open_directory(parent)
        try:
            self._directory = _claim(self._parent, self._name, target)
        except BaseException:
            os.close(self._parent)
            raise
        aside = os.path.join(parent, self._directory.name, self._name)
        # For code that wants a path. Nobody else can write the directory that it leads through.
        self.path = path_at(self._directory.descriptor, self._name, os.path.abspath(aside))

    def create(self, *, copy: bool = False) -> int:
        """Return a descriptor of the new file, which must not exist; with `copy`, of the target's copy."""
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
        """Return a descriptor to read the file, however it was written."""
        return os.open(self._name, _READ, dir_fd=self._directory.descriptor)

    def commit(self, *, sync: bool, exclusive: bool = False) -> None:
        """Give the file its name, replacing an older one; with `exclusive`, raise FileExistsError."""
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
        """Discard the file. Idempotent. In a forked process the file is the parent's and stays."""
        if not self._open:
            return
        self._open = False
        try:
            # It is empty after a commit, unless native code left more in it.
            if os.getpid() == self.owner and not self._directory.remove():
                self._directory.clear(belongs=lambda name: True)
                self._directory.remove()
        finally:
            self._directory.close()
            os.close(self._parent)


@cache
def machine() -> str:
    """Return an identifier of this machine from one start to the next."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            known = file.read().strip()
    except OSError:
        known = socket.gethostname()
    return hashlib.sha256(known.encode()).hexdigest()[:12]


def _claim(parent: int, name: str, target: str) -> PrivateDirectory:
    """Return an empty locked directory for a file, that no other process writes in."""
    shown = _shown(name)
    for candidate in _candidates(f".{shown}.partial-"):
        directory, created = _make(parent, candidate)
        if directory is None:
            continue
        lock = directory.lock()
        if lock is Lock.UNSUPPORTED and not created:
            directory.close()
            # Nothing is known of the others' directories: one with a name that none of them has.
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
        "other users take each name that the file could have while it is written; use a directory "
        "that only you can write",
        target,
    )


def _candidates(prefix: str) -> Iterator[str]:
    for number in range(_MOST_NUMBERED):
        yield f"{prefix}{machine()}-{number}"
    for _ in range(_MOST_RANDOM):
        yield f"{prefix}{machine()}-{secrets.randbelow(10**12)}"


def _make(parent: int, name: str) -> tuple[PrivateDirectory | None, bool]:
    """Return a private directory of that name, if it is or can be one, and whether it is new."""
    try:
        create_private(parent, name)
        created = True
    except FileExistsError:
        created = False
    try:
        directory = open_private(parent, name, created=created)
    except FileNotFoundError:
        return None, False  # its owner was just done with it
    if created and directory is None:
        with contextlib.suppress(OSError):  # it stays if it is another user's by now
            os.rmdir(name, dir_fd=parent)
    return directory, created


def _sweep(leftover: PrivateDirectory, shown: str) -> None:
    lock = leftover.lock()
    # Busy: the file is being written. Unsupported: nobody knows.
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
    """Return how a file's name appears in that of its directory."""
    if len(os.fsencode(name)) <= _LONGEST_NAME:
        return name
    return hashlib.sha1(os.fsencode(name), usedforsecurity=False).hexdigest()


def _belongs(shown: str, name: str) -> bool:
    """Return whether a file is the one of its directory; native code may add to the name."""
    return name.startswith(shown) or _shown(name) == shown


def _check_owner(status: os.stat_result, directory: int, target: str) -> None:
    if is_planted(status, os.fstat(directory)):
        raise PermissionError(
            errno.EACCES, "a file of another user in a sticky directory; name another", target
        )


def _follow(target: str) -> tuple[str, str]:
    """Return the directory and the name that a path leads to, over links at its end.

    Raises PermissionError for a link in a sticky directory that belongs to another user.
    """
    path = target
    for _ in range(_MOST_LINKS):
        parent, name = os.path.split(path.rstrip("/"))
        link = os.path.join(parent, name)
        if is_special(link) or not os.path.islink(link):
            return parent, name
        if is_planted(os.lstat(link), os.stat(parent or os.curdir)):
            raise PermissionError(
                errno.EACCES, "a link of another user in a sticky directory; name its target", link
            )
        path = os.path.join(parent, os.readlink(link))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
