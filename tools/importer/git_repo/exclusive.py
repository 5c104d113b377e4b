# SPDX-License-Identifier: Apache-2.0
"""Allow only one importer at a time in a repository, and clean up after a killed one."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.git_repo.repository import STAGING, Repository

_LOCK = "importer.lock"
_MACHINE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
    errno.EXDEV,  # a different file system is mounted in the working tree
)


@contextmanager
def exclusive(repository: Repository) -> Iterator[None]:
    """Lock the repository against other importers. Raises UserError if another one is running.

    An OSError with an external cause inside the block, such as a full disk, becomes an
    EnvironmentProblem. The kernel releases the lock when its holder exits, so it is never stale.
    """
    try:
        with _held(repository):
            yield
    except OSError as error:
        if error.errno not in _MACHINE:
            raise  # a bug in the importer, not a failure of the environment
        raise EnvironmentProblem(
            f"{error.filename or repository.path}: {error.strerror}. "
            "Fix that and run it again: it continues where it stopped"
        ) from error


@contextmanager
def _held(repository: Repository) -> Iterator[None]:
    file = repository.git_dir / _LOCK
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{repository.path}: another import is running here. Wait until it ends"
            ) from None
        for leftover in repository.git_dir.glob(f"{STAGING}*"):
            if leftover.is_dir():
                shutil.rmtree(leftover)
        yield
    finally:
        os.close(handle)
