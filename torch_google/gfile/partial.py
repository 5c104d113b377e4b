# SPDX-License-Identifier: Apache-2.0
"""A file of this machine that appears whole: written aside, synced, renamed.

What is being written to `DIR/NAME` is `DIR/.NAME.partial-MACHINE-0/NAME`: the same filesystem, so that
the rename is atomic, and the same last component, since some formats record it. The writer holds a lock
on that directory. The lock dies with the process, so the next writer of the same file knows what a killed
one left, and takes its place; a live one's is left alone, and the next number used.

On NFS such a lock is known to its own machine only. So each machine, from one boot to the next, has names
of its own, and what has another's is left alone until it is old.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import socket
import time
import uuid
from functools import cache
from itertools import count

_NAME = re.compile(r"\..*\.partial-(?:(?:([0-9a-f]{12})-)?\d+|[0-9a-f]{32})")
# Bytes of a name that most filesystems allow, less those that a partial one adds.
_LONGEST_NAME = 255 - len("..partial-") - 32
# Network filesystems without locks: a name of one's own, and nothing is taken over.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})
# What was left this long ago (seconds) is a dead writer's, where no lock can tell.
LITTER = 24 * 3600.0


def is_partial(name: str) -> bool:
    """Whether a name in a directory is a file being written, or what a killed writer left of one."""
    return _NAME.fullmatch(name) is not None


def sweep(directory: str) -> None:
    """Remove what killed writers left in a directory; what somebody is writing stays.

    What another machine's left, or this one's before it was last started, goes when it is a day old.
    """
    for name in os.listdir(directory):
        found, path = _NAME.fullmatch(name), os.path.join(directory, name)
        if found is None or (found[1] != machine() and not _is_litter(path)):
            continue
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # just gone, a file of that name, or somebody else's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, path):
                _empty(path)
                os.rmdir(path)
        except OSError as error:
            # It is being written; or there are no locks, and nobody knows.
            if error.errno not in {errno.EWOULDBLOCK, *_NO_LOCKS}:
                raise
        finally:
            os.close(lock)


class Partial:
    """`path` may be written by anybody; then either `commit` or `discard`.

    Raises what making a directory beside the target raises: FileNotFoundError, PermissionError, ...
    """

    def __init__(self, target: str) -> None:
        # A link stays a link: what it points to is replaced.
        self.target = os.path.realpath(target)
        if os.path.isdir(self.target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
        parent, name = os.path.split(self.target)
        shown = name
        if len(os.fsencode(name)) > _LONGEST_NAME:
            shown = hashlib.sha1(os.fsencode(name), usedforsecurity=False).hexdigest()
        self.owner = os.getpid()
        self._directory, self._lock = _claim(os.path.join(parent, f".{shown}.partial-"))
        self.path = os.path.join(self._directory, name)
        _empty(self._directory)

    def commit(self, *, sync: bool, exclusive: bool = False) -> None:
        """Give the file its name, over an older one; raises FileExistsError where `exclusive`."""
        try:
            _keep_permissions(self.path, self.target)
            if sync:
                _sync(self.path)
            if exclusive:
                os.link(self.path, self.target)
            else:
                os.replace(self.path, self.target)
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave nothing; a second time is nothing. In a forked process it is the parent's and stays."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        if os.getpid() != self.owner:
            os.close(lock)
            return
        try:
            if os.path.lexists(self.path):
                os.unlink(self.path)
            os.rmdir(self._directory)
        except OSError as error:
            # Another writer, waiting for this directory, has put its file there already.
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
        finally:
            os.close(lock)


def _claim(prefix: str) -> tuple[str, int | None]:
    """Return a directory that nobody else writes in, and the descriptor that says so."""
    names = (f"{prefix}{machine()}-{number}" for number in count())
    name = next(names)
    while True:
        made = _make(name)
        try:
            lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its owner was just done with it
        except PermissionError:
            if made:
                raise
            name = next(names)  # somebody else's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            name = next(names)
            continue
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(lock)
                raise
            if made:
                return name, lock
            os.close(lock)
            name = f"{prefix}{uuid.uuid4().hex}"
            continue
        if _is_at(lock, name):
            return name, lock
        os.close(lock)  # the one that was locked is gone, or another has its name


@cache
def machine() -> str:
    """Return what tells this machine, since it was started, from all others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            known = file.read().strip()
    except OSError:
        known = socket.gethostname()
    return hashlib.sha256(known.encode()).hexdigest()[:12]


def _is_litter(directory: str) -> bool:
    try:
        inside = [os.path.join(directory, name) for name in os.listdir(directory)]
        latest = max(os.lstat(path).st_mtime for path in [directory, *inside])
    except OSError:
        return False  # just gone, or somebody else's
    return time.time() - latest > LITTER


def _empty(directory: str) -> None:
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))


def _make(name: str) -> bool:
    try:
        os.mkdir(name, 0o700)
    except FileExistsError:
        return False
    return True


def _is_at(descriptor: int, name: str) -> bool:
    try:
        there = os.stat(name)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _keep_permissions(path: str, target: str) -> None:
    try:
        mode = os.stat(target).st_mode & 0o7777
    except FileNotFoundError:
        return
    if os.stat(path).st_mode & 0o7777 != mode:
        os.chmod(path, mode)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
