# SPDX-License-Identifier: Apache-2.0
"""The interface that the local filesystem and the object stores implement."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch_google.gfile.failures import failure


@dataclass(frozen=True)
class FileStatus:
    """A file's length in bytes (0 for a directory) and modification time in seconds since 1970.

    `modified` is None if the store does not report it. `mode` is None except for local files.
    """

    length: int
    is_directory: bool
    modified: float | None = None
    mode: int | None = None


class Filesystem(ABC):
    """Operations on full paths, including the scheme. Methods raise OSError as `open()` would.

    In an object store, directories are only implied by file names, so creating one is a no-op.
    """

    @abstractmethod
    def open_to_read(self, path: str) -> Any:
        """Return a seekable buffered binary reader."""

    @abstractmethod
    def open_to_write(self, path: str, mode: str, checksum: str | None) -> Any:
        """Return a binary writer that commits at close(); `mode` is w, a or x."""

    @abstractmethod
    def status(self, path: str) -> FileStatus: ...

    @abstractmethod
    def entries(self, path: str) -> dict[str, bool]:
        """Return the names in a directory, and whether each is a directory."""

    @abstractmethod
    def make_directory(self, path: str, *, parents: bool) -> None:
        """Create a directory. With `parents`, create its parents too, unless they already exist."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file."""

    @abstractmethod
    def remove_tree(self, path: str) -> None:
        """Remove a file, or a directory and everything in it."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if self.entries(path):
            raise failure(errno.ENOTEMPTY, "cannot remove: it is not empty", path)
        self.remove_tree(path)

    @abstractmethod
    def rename(self, source: str, target: str, *, overwrite: bool) -> None: ...

    def sweep(self, path: str) -> None:
        """Remove the files that killed writers left in a directory.

        The default implementation removes nothing, and raises if the directory does not exist.
        """
        self.status(path)

    def exists(self, path: str) -> bool:
        """Return whether a file or a directory exists."""
        try:
            self.status(path)
        except OSError as error:
            if not _is_absence(error):
                raise
            return False
        return True

    def is_directory(self, path: str) -> bool:
        """Return whether a directory exists."""
        try:
            return self.status(path).is_directory
        except OSError as error:
            if not _is_absence(error):
                raise
            return False

    def is_link(self, path: str) -> bool:
        """Return whether a path is a symbolic link; False if the filesystem has no links."""
        return False

    def read_text(self, path: str) -> str | None:
        """Return the text of a small file, or None if it does not exist."""
        try:
            with self.open_to_read(path) as file:
                data: bytes = file.read()
        except FileNotFoundError:
            return None
        return data.decode("utf-8")

    def write_text(self, path: str, text: str) -> None:
        """Write a small file, replacing an existing one atomically."""
        with self.open_to_write(path, "w", None) as file:
            file.write(text.encode("utf-8"))


def _is_absence(error: OSError) -> bool:
    """Return whether an error, such as ELOOP for a link loop, means that a path does not exist."""
    return isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno in (
        errno.ELOOP,
        errno.ENAMETOOLONG,
    )
