# SPDX-License-Identifier: Apache-2.0
"""Support importlib.resources for packages in an archive. Packages on disk use FileReader."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from importlib.abc import Traversable, TraversableResources
from typing import IO, TYPE_CHECKING, Any

from par_runtime import files

if TYPE_CHECKING:
    from _par_importer import Bundle


def reader(bundle: Bundle, filename: str) -> TraversableResources:
    """Return the resource reader for a package or module whose __file__ is `filename`."""
    if bundle.on_disk or not bundle.zip_safe:
        from importlib.machinery import SourceFileLoader
        from importlib.readers import FileReader

        return FileReader(SourceFileLoader("", filename))
    directory = os.path.dirname(filename)[len(bundle.virtual_root) + 1 :]
    return ArchiveReader(ArchivePath(bundle, directory))


def directory_reader(bundle: Bundle, relative: str) -> TraversableResources:
    """Return the resource reader for a package directory that has no __init__.py."""
    return ArchiveReader(ArchivePath(bundle, relative))


class ArchiveReader(TraversableResources):
    def __init__(self, directory: ArchivePath) -> None:
        self._directory = directory

    def files(self) -> Traversable:
        return self._directory


class ArchivePath(Traversable):
    """A file or directory in an archive, with the read-only part of pathlib.Path's interface."""

    def __init__(self, bundle: Bundle, relative: str) -> None:
        self._bundle = bundle
        self._relative = relative

    @property
    def name(self) -> str:
        return os.path.basename(self._relative) or os.path.basename(self._bundle.virtual_root)

    def __str__(self) -> str:
        return f"{self._bundle.virtual_root}/{self._relative}".rstrip("/")

    def __repr__(self) -> str:
        return f"ArchivePath({str(self)!r})"

    def is_file(self) -> bool:
        return self._relative in files.table(self._bundle) or self._relative in files.natives(
            self._bundle
        )

    def is_dir(self) -> bool:
        return next(files.iter_directory(self._bundle, self._relative), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Iterator[Traversable]:
        if self.is_file():
            raise NotADirectoryError(20, "Not a directory", str(self))
        for name, _ in files.iter_directory(self._bundle, self._relative):
            yield self / name

    def joinpath(self, *descendants: str | os.PathLike[str]) -> ArchivePath:
        joined = os.path.normpath(
            os.path.join(self._relative, *(os.fspath(d) for d in descendants))
        )
        if joined.startswith(("..", "/")):
            raise ValueError(f"{self}: {descendants!r} leads out of the archive")
        return ArchivePath(self._bundle, "" if joined == "." else joined)

    __truediv__ = joinpath

    def read_bytes(self) -> bytes:
        if self.is_dir():
            raise IsADirectoryError(21, "Is a directory", str(self))
        return files.read(self._bundle, self._relative)

    def read_text(self, encoding: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8")

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> IO[Any]:
        if mode not in ("r", "rb"):
            raise ValueError(f"{self}: mode {mode!r}: an archive can only be read")
        stream = io.BytesIO(self.read_bytes())
        return stream if mode == "rb" else io.TextIOWrapper(stream, *args, **kwargs)
