# SPDX-License-Identifier: Apache-2.0
"""What every keeper of files can do: this machine, and stores behind a scheme."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torch_google.gfile.failures import failure


@dataclass(frozen=True)
class FileStatus:
    """What is known of a file: bytes (0 for a directory), and when it changed, in seconds since 1970.

    `modified` is None where the store does not say; `mode` too, outside of this machine.
    """

    length: int
    is_directory: bool
    modified: float | None = None
    mode: int | None = None


class Filesystem(ABC):
    """Paths are whole, with their scheme. Methods raise OSError as `open()` would.

    Where directories are only implied by the names of files, making one does nothing.
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
        """With `parents`, one that is there already is no error."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file."""

    @abstractmethod
    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything below it, or a file."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        if self.entries(path):
            raise failure(errno.ENOTEMPTY, "cannot remove: it is not empty", path)
        self.remove_tree(path)

    @abstractmethod
    def rename(self, source: str, target: str, *, overwrite: bool) -> None: ...

    def sweep(self, path: str) -> None:
        """Remove what killed writers left in a directory, where they leave anything that can be seen."""
        self.status(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file or a directory."""
        try:
            self.status(path)
        except OSError as error:
            if not _is_absence(error):
                raise
            return False
        return True

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory."""
        try:
            return self.status(path).is_directory
        except OSError as error:
            if not _is_absence(error):
                raise
            return False

    def is_link(self, path: str) -> bool:
        """Whether it is a symbolic link; where nothing is one, it never is."""
        return False

    def read_text(self, path: str) -> str | None:
        """Return a small file's text, or None where it is not."""
        try:
            with self.open_to_read(path) as file:
                data: bytes = file.read()
        except FileNotFoundError:
            return None
        return data.decode("utf-8")

    def write_text(self, path: str, text: str) -> None:
        """Write a small file whole."""
        with self.open_to_write(path, "w", None) as file:
            file.write(text.encode("utf-8"))


def _is_absence(error: OSError) -> bool:
    """Whether there is nothing of that name, nor can be: a link that leads to itself, a name too long."""
    return isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno in (
        errno.ELOOP,
        errno.ENAMETOOLONG,
    )
