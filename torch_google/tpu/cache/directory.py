# SPDX-License-Identifier: Apache-2.0
"""Stores cache entries in a size-limited local directory that is shared across processes."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch_google.tpu.cache.trust import (
    FILE_FLAGS,
    UntrustedEntry,
    check_owner,
    open_directory,
    open_entry,
)

# Eviction shrinks the directory to this fraction of the limit, so that the next write does not
# evict again.
_KEPT = 0.9
# A temporary file older than this is assumed to be left over from a killed process.
_LITTER_SECONDS = 3600.0
_TEMPORARY = ".partial-"
# Entry names match this pattern. Files with any other name are left alone.
_ENTRY = re.compile(r"[0-9a-f]{64}")


class Directory:
    """A directory of entries, limited to `max_bytes` in total, or unlimited if that is None.

    `read` and `write` raise OSError if a file system operation fails. The directory, its
    subdirectories and its entries must be owned by the current user or root, and must not be
    writable by any other user (see trust.py).
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int | None) -> None:
        self._path = Path(path).expanduser().absolute()
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._total: int | None = None  # bytes in the directory, as far as this process knows
        self.evicted = 0

    def __str__(self) -> str:
        return str(self._path)

    def fits(self, size: int) -> bool:
        """Return whether an entry of this size fits. Larger ones would be evicted immediately."""
        return self._max_bytes is None or size <= self._max_bytes * _KEPT

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry and mark it as used, or return None if it does not exist.

        Raises UntrustedEntry if another user owns the file or can write to it.
        """
        try:
            with (
                self._folder(name) as folder,
                open(open_entry(name, folder, self._file(name)), "rb") as file,
            ):
                data = file.read()
                # Updating the last-use time fails if the file is read-only or was just evicted, but
                # the data that was read is still valid.
                with contextlib.suppress(OSError):
                    os.utime(file.fileno())
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write an entry atomically, then evict entries if the limit is exceeded."""
        # `mode` applies only to the last path component; its parents' modes depend on the umask.
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._folder(name, create=True) as folder:
            partial = _TEMPORARY + secrets.token_hex(8)
            handle = os.open(
                partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FILE_FLAGS, 0o600, dir_fd=folder
            )
            try:
                with open(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(partial, dir_fd=folder)
                raise
        if self._max_bytes is not None:
            with self._lock:
                self._bound(len(data), self._max_bytes)

    @contextmanager
    def _folder(self, name: str, *, create: bool = False) -> Iterator[int]:
        """Yield a file descriptor for the subdirectory that contains the entry with this name."""
        root = open_directory(self._path)
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name[:2], 0o700, dir_fd=root)
            folder = open_directory(self._path / name[:2], below=root)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)

    def _file(self, name: str) -> Path:
        return self._path / name[:2] / name

    def _bound(self, added: int, most: int) -> None:
        if self._total is not None:
            self._total += added
            if self._total <= most:
                return
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries if total > most else ():
            if total <= most * _KEPT:
                break
            path.unlink(missing_ok=True)
            total -= size
            self.evicted += 1
        self._total = total

    def _entries(self) -> list[tuple[float, int, Path]]:
        """Return (last-use time, size, path) for each entry, and remove leftover temporary files.

        Sizes are in bytes. Symbolic links and other users' files are neither returned nor removed.
        """
        newest, files = 0.0, []
        for path in self._path.glob("[0-9a-f][0-9a-f]/*"):
            if not (path.name.startswith(_TEMPORARY) or _is_entry(path)):
                continue
            try:
                status = path.lstat()
                check_owner(status, path, UntrustedEntry)
            except (FileNotFoundError, UntrustedEntry):
                continue  # another process has evicted the file, or it is not an entry
            if not stat.S_ISREG(status.st_mode) or path.parent.is_symlink():
                continue
            newest = max(newest, status.st_mtime)
            files.append((status.st_mtime, status.st_size, path))
        entries = []
        for used, size, path in files:
            if not path.name.startswith(_TEMPORARY):
                entries.append((used, size, path))
            elif newest - used > _LITTER_SECONDS:
                path.unlink(missing_ok=True)
        return entries


def _is_entry(path: Path) -> bool:
    return bool(_ENTRY.fullmatch(path.name)) and path.parent.name == path.name[:2]
