# SPDX-License-Identifier: Apache-2.0
"""Find a cache directory for unpacked files that is private, writable and owned by this user.

If PAR_CACHE_DIR is set, it is the only candidate. Otherwise, the candidates are in XDG_CACHE_HOME,
HOME/.cache, TEST_TMPDIR, TMPDIR and /tmp, in this order. A directory to which another user may have
written is never used, and another user's home directory (under sudo) is never written to. A program
with elevated privileges (setuid, setgid, file capabilities) has no cache, because its caller may
own all of these directories.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _par_importer import Runtime


class CacheError(SystemExit):
    """Raised if PAR_CACHE_DIR is unusable. The program exits with a one-line error and status 1."""


def say(program: str, text: str) -> None:
    print(f"{os.path.basename(program)}: {text}", file=sys.stderr, flush=True)


@functools.lru_cache(maxsize=1)
def directories(runtime: Runtime) -> tuple[str, ...]:
    """Return the usable cache directories, best first. Warn about those that another user owns."""
    if runtime.raised:
        return ()
    program = runtime.program
    named = os.environ.get("PAR_CACHE_DIR")
    if named:
        directory = os.path.abspath(named)
        problem = _problem(directory)
        if problem:
            raise CacheError(
                f"{os.path.basename(program)}: PAR_CACHE_DIR={named}: {problem}; name a directory "
                "that you own and that no other user can write to"
            )
        return (directory,)
    usable = []
    for directory in _candidates():
        problem = _problem(directory)
        if not problem:
            usable.append(directory)
        elif problem.startswith("owned by"):
            say(program, f"cache {directory} is {problem}: not used (PAR_CACHE_DIR=DIR chooses)")
    return tuple(usable)


def _candidates() -> Iterator[str]:
    user = os.geteuid()
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        yield os.path.join(base, "par")
    home = os.environ.get("HOME")
    if home and os.path.isabs(home):
        try:
            owned = os.stat(home).st_uid == user
        except OSError:
            owned = False
        if owned:
            yield os.path.join(home, ".cache", "par")
    seen = set()
    for base in (os.environ.get("TEST_TMPDIR"), os.environ.get("TMPDIR"), "/tmp"):
        if base and os.path.isabs(base) and base not in seen:
            seen.add(base)
            yield os.path.join(base, f"par-{user}")


def _problem(directory: str) -> str | None:
    """Create `directory` if needed. Return why it cannot be a cache, or None if it can."""
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        status = os.lstat(directory)
    except OSError as error:
        return f"not usable ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return "not a directory"
    # A directory that root owns is also usable, because other users can only read it.
    if status.st_uid not in (os.geteuid(), 0):
        return f"owned by user {status.st_uid} and not by {os.geteuid()}"
    if status.st_mode & 0o022:
        return f"writable by others (mode {status.st_mode & 0o777:o})"
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        return "on a file system that is mounted noexec"
    return None
