# SPDX-License-Identifier: Apache-2.0
"""Read the members of a zip file by path, on demand."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tools.importer.archives.archive import mode_of, read_summary
from tools.importer.archives.safe_path import check_link
from tools.importer.errors import EnvironmentProblem
from tools.importer.snapshot import SYMLINK, Blob


def open_zip(file: Path) -> zipfile.ZipFile:
    """Open a cached zip. Raises EnvironmentProblem if it is corrupt."""
    try:
        return zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise _damaged(file, error) from error


class ZipMembers:
    """Selected members of a zip as a file tree. `paths` maps each tree path to its member."""

    def __init__(self, file: Path, packed: zipfile.ZipFile, paths: Mapping[str, zipfile.ZipInfo]):
        self._file, self._packed, self._members = file, packed, paths

    @property
    def paths(self) -> Collection[str]:
        return self._members.keys()

    def read(self, path: str) -> Blob | None:
        member = self._members.get(path)
        if member is None:
            return None
        try:
            blob = Blob(self._packed.read(member), mode_of(member))
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            raise _damaged(self._file, error) from error
        if blob.mode == SYMLINK:
            check_link(path, blob.data.decode("utf-8", "surrogateescape"), self._file.name)
        return blob


class ArchiveSnapshot:
    """The tree of an archive, from the zip written by archive.write_tree.

    `absent` returns whether the archive's author omitted a path. A path under an empty directory,
    such as a submodule's, also counts as omitted.
    """

    natives = False

    def __init__(
        self,
        tree: Path,
        *,
        label: str,
        pin: Mapping[str, object],
        absent: Callable[[str], bool] = lambda path: False,
    ) -> None:
        packed = open_zip(tree)
        summary = read_summary(packed)
        top = summary.top
        items = [(item.filename.removeprefix(top), item) for item in packed.infolist()]
        self._members = ZipMembers(
            tree, packed, {path: item for path, item in items if not item.is_dir()}
        )
        self._hollow = tuple(path for path, item in items if path and item.is_dir())
        self._absent = absent
        self.label = label
        self.commit = summary.commit
        self.pin = pin

    def paths(self) -> Collection[str]:
        return self._members.paths

    def read(self, path: str) -> Blob | None:
        return self._members.read(path)

    def carries(self, path: str) -> bool:
        if path in self._members.paths:
            return True
        return not (path.startswith(self._hollow) or self._absent(path))


def _damaged(file: Path, error: Exception) -> EnvironmentProblem:
    return EnvironmentProblem(f"{file}: damaged: {error}. Delete it; it is fetched again")
