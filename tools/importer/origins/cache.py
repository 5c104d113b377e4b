# SPDX-License-Identifier: Apache-2.0
"""The user's cache of downloads, keyed by sha256. Files are created atomically.

    files/<sha256>       archives as downloaded
    trees/<sha256>.zip   the tree of the archive with that hash, readable by path
    names/<name>         the hash of a published file; an origin never changes such a file
    git/, apt/           state of these tools
    scratch/             unfinished files; leftovers of killed processes are deleted after a day

Any of these files can be deleted safely, because they are downloaded again when needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from third_party.pypi.host_pip import cache_directory
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.ownership import check_own
from tools.importer.tree import file_digest

_STALE_SECONDS = 24 * 3600
_PLACES = ("files", "trees", "names", "git", "apt", "locks", "scratch")


class CacheProblem(EnvironmentProblem):
    """The error raised if the cache cannot be written, for example because the disk is full."""


@dataclass(frozen=True)
class Cache:
    """A cache directory that concurrent processes can safely use."""

    root: Path

    def file(self, sha256: str) -> Path | None:
        """Return the cached file with the hash `sha256`, or None if it is not cached."""
        path = self.root / "files" / _checked(sha256)
        return path if path.is_file() and not path.is_symlink() else None

    def keep(self, file: Path) -> tuple[Path, str]:
        """Move `file` from scratch() to the path for its hash. Return this path and the hash."""
        with self.writing():
            sha256 = file_digest(file)
            target = self.root / "files" / sha256
            _publish(file, target)
        return target, sha256

    def tree(self, sha256: str, make: Callable[[Path], None]) -> Path:
        """Return the zip for the archive with this hash; `make` creates it if it is missing."""
        target = self.root / "trees" / f"{_checked(sha256)}.zip"
        if not target.is_file():
            with self.scratch() as directory:
                make(directory / "tree.zip")
                _publish(directory / "tree.zip", target)
        return target

    def named(self, name: str) -> Mapping[str, str] | None:
        """Return the data stored under `name`, or None if there is none."""
        try:
            data = json.loads((self.root / "names" / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return data if isinstance(data, dict) else None

    def note(self, name: str, data: Mapping[str, str]) -> None:
        """Store `data` under `name`, which must be a valid file name."""
        with self.scratch() as directory:
            (directory / "note").write_text(json.dumps(data) + "\n", encoding="utf-8")
            _publish(directory / "note", self.root / "names" / name)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a directory for unfinished files, on the cache's file system."""
        with self.writing():
            scratches = self.root / "scratch"
            scratches.mkdir(parents=True, exist_ok=True)
            _sweep(scratches)
            directory = Path(tempfile.mkdtemp(dir=scratches))
        try:
            with self.writing():
                yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[int]:
        """Wait for a lock and hold it. Child processes that inherit the descriptor also hold it."""
        with self.writing():
            path = self.root / "locks" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an OSError in this context, such as a full disk, into a one-line CacheProblem."""
        try:
            yield
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise self.problem(f"{where}{error.strerror or error}") from error

    def problem(self, message: str) -> CacheProblem:
        """Return the error for an unwritable cache. This error ends the search for an origin."""
        return CacheProblem(
            f"cannot write the cache, {self.root}: {message}. Make room there, or set XDG_CACHE_HOME to"
            " another directory"
        )


def user_cache() -> Cache:
    """Return the user's cache. Raises UserError if other users can write to it."""
    cache = Cache(cache_directory() / "importer")
    for directory in (cache.root, *(cache.root / name for name in _PLACES)):
        check_own(
            directory, "Delete it, or set XDG_CACHE_HOME to a directory of your own", link=True
        )
    return cache


def _checked(sha256: str) -> str:
    if len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
        raise UserError(f"'{sha256}' is not a sha256 in hex. Restore the file that has the pin")
    return sha256


def _publish(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with file.open("rb+") as handle:
        os.fsync(handle.fileno())
    file.chmod(0o444)
    os.replace(file, target)


def _sweep(scratches: Path) -> None:
    for path in scratches.iterdir():
        # Another process may be deleting the same leftovers.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
