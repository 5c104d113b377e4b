# SPDX-License-Identifier: Apache-2.0
"""Local origins: archives, pinned by sha256, and directories, pinned by a hash of the tree."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from tools.importer.archives.archive import write_tree
from tools.importer.archives.safe_path import check_link
from tools.importer.archives.zip_tree import ArchiveSnapshot
from tools.importer.errors import UserError
from tools.importer.origins.cache import Cache
from tools.importer.origins.origin import Pin, Revision, text_of
from tools.importer.report import Report
from tools.importer.snapshot import SYMLINK, Blob
from tools.importer.tree import Entry, entry_of, file_digest, hash_entries

ARCHIVE_KIND = "tarball"
TREE_KIND = "tree"
_SHORT = 12


class ArchiveOrigin:
    """A tar (plain, gz, bz2, xz) or zip archive of a source tree."""

    title = "an archive"

    def __init__(self, file: Path | None, cache: Cache, report: Report) -> None:
        self._path, self._cache, self._report = file, cache, report

    def find(self, revision: Revision) -> ArchiveSnapshot:
        file = self._named()
        sha256 = _digest(file)
        label = revision.tag or f"archive-{sha256[:_SHORT]}"
        pin = {"kind": ARCHIVE_KIND, "tag": label, "path": os.fspath(file), "sha256": sha256}
        return self._snapshot(pin, file)

    def open(self, pin: Pin) -> ArchiveSnapshot:
        return self._snapshot(pin, self._path or Path(text_of(pin, "path")))

    def _snapshot(self, pin: Pin, file: Path) -> ArchiveSnapshot:
        sha256 = text_of(pin, "sha256")

        def make(out: Path) -> None:
            digest = _digest(file)
            if digest != sha256:
                raise UserError(
                    f"{file}: sha256 is {digest}, the pin says {sha256}. Put the archive back, or import"
                    " from the new one"
                )
            with self._report.progress(f"Indexing {file.name}"):
                write_tree(file, file.name, out)

        return ArchiveSnapshot(
            self._cache.tree(sha256, make), label=text_of(pin, "tag"), pin=dict(pin)
        )

    def _named(self) -> Path:
        if self._path is None:
            raise UserError("no archive is named. Give --origin its path")
        return self._path


class TreeOrigin:
    """A local directory. git's own files in it are ignored."""

    title = "a directory"

    def __init__(self, directory: Path | None, report: Report) -> None:
        self._path, self._report = directory, report

    def find(self, revision: Revision) -> TreeSnapshot:
        if self._path is None:
            raise UserError("no directory is named. Give --origin its path")
        entries = self._entries(self._path)
        digest = hash_entries(entries)
        label = revision.tag or f"tree-{digest[:_SHORT]}"
        pin = {"kind": TREE_KIND, "tag": label, "path": os.fspath(self._path), "hash": digest}
        return TreeSnapshot(self._path, entries, pin)

    def open(self, pin: Pin) -> TreeSnapshot:
        directory = self._path or Path(text_of(pin, "path"))
        entries = self._entries(directory)
        digest, want = hash_entries(entries), text_of(pin, "hash")
        if digest != want:
            raise UserError(
                f"{directory}: the tree's hash is {digest}, the pin says {want}. Put the files back, or"
                " import from the tree as it is"
            )
        return TreeSnapshot(directory, entries, pin)

    def _entries(self, directory: Path) -> dict[str, Entry]:
        if not directory.is_dir():
            raise UserError(f"{directory}: no such directory. Name one with --origin")
        with self._report.progress(f"Hashing {directory}"):
            entries = {}
            for path in _files(directory):
                entries[path] = _entry(directory, path)
        if not entries:
            raise UserError(f"{directory}: no file in it. Name the directory of a source tree")
        return entries


class TreeSnapshot:
    """The files of a directory. A file's hash is checked whenever the file is read."""

    natives = False
    commit = None

    def __init__(self, directory: Path, entries: Mapping[str, Entry], pin: Pin) -> None:
        self._directory, self._entries = directory, entries
        self.pin = dict(pin)
        self.label = text_of(pin, "tag")

    def paths(self) -> Collection[str]:
        return self._entries.keys()

    def read(self, path: str) -> Blob | None:
        entry = self._entries.get(path)
        if entry is None:
            return None
        data = self._bytes(path, entry)
        if data is None or hashlib.sha256(data).hexdigest() != entry.digest:
            raise UserError(
                f"{self._directory / path}: changed while it was imported. Start the import again"
            )
        return Blob(data, entry.mode)

    def carries(self, path: str) -> bool:
        return True

    def _bytes(self, path: str, entry: Entry) -> bytes | None:
        full = self._directory / path
        try:
            return os.fsencode(os.readlink(full)) if entry.mode == SYMLINK else full.read_bytes()
        except OSError:
            return None


def _entry(directory: Path, path: str) -> Entry:
    full = directory / path
    try:
        if full.is_symlink():
            check_link(path, os.readlink(full), os.fspath(directory))
        elif not full.is_file():
            raise UserError(f"{full}: neither file, link nor directory. Remove it from the tree")
        return entry_of(directory, path)
    except OSError as error:
        raise UserError(f"{full}: {error.strerror}. Make it readable") from error


def _files(directory: Path) -> list[str]:
    paths = []
    for folder, directories, files in os.walk(directory):
        prefix = os.path.relpath(folder, directory)
        links = [name for name in directories if os.path.islink(os.path.join(folder, name))]
        directories[:] = sorted(set(directories) - {".git", *links})
        names = [name for name in [*files, *links] if name != ".git"]
        paths += names if prefix == "." else [f"{prefix}/{name}" for name in names]
    return sorted(paths)


def _digest(file: Path) -> str:
    try:
        return file_digest(file)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}. Name an archive that can be read") from error
