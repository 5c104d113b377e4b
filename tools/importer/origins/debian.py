# SPDX-License-Identifier: Apache-2.0
"""The origin for Debian source packages: upstream's tree without the files that Debian removes."""

from __future__ import annotations

import fnmatch
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.importer.archives.archive import write_tree
from tools.importer.archives.zip_tree import ArchiveSnapshot
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.cache import Cache
from tools.importer.origins.debian_source import DebianArchive, SourceFile
from tools.importer.origins.origin import NotHereError, Pin, Revision, text_of
from tools.importer.report import Report

KIND = "debian"

_UPSTREAM = re.compile(r".*\.orig\.tar\.\w+")
_PACKAGING = re.compile(r".*\.debian\.tar\.\w+")


class DebianOrigin:
    """The origin for one Debian source package."""

    title = "Debian's source package"

    def __init__(
        self, package: str, cache: Cache, report: Report, *, archive: DebianArchive | None = None
    ) -> None:
        self._package, self._cache, self._report = package, cache, report
        self._archive = archive or DebianArchive(cache)

    def find(self, revision: Revision) -> ArchiveSnapshot:
        if revision.version is None:
            raise NotHereError(
                f"{revision.name} is not the tag of a release, and Debian packs releases"
            )
        with self._report.progress("Asking Debian's source indexes"):
            source = self._archive.find(self._package, revision.version)
        parts = {
            role: next((file for file in source.files if pattern.fullmatch(file.name)), None)
            for role, pattern in (("upstream", _UPSTREAM), ("packaging", _PACKAGING))
        }
        files = [file for file in parts.values() if file is not None]
        if len(files) != 2:
            raise NotHereError(
                f"{self._package} {source.version} is no package of upstream's archive and Debian's"
                f" own: {', '.join(file.name for file in source.files)}"
            )
        pin = {
            "kind": KIND,
            "tag": revision.tag,
            "package": self._package,
            "version": source.version,
            "files": {file.name: file.sha256 for file in files},
        }
        return self._snapshot(pin, {file.name: file for file in files})

    def open(self, pin: Pin) -> ArchiveSnapshot:
        return self._snapshot(pin, {})

    def _snapshot(self, pin: Pin, known: Mapping[str, SourceFile]) -> ArchiveSnapshot:
        files = pin.get("files")
        if not isinstance(files, Mapping):
            raise UserError(f"the pin {dict(pin)} names no files. Restore the file that has it")
        upstream, packaging = (
            next((name for name in files if pattern.fullmatch(name)), "")
            for pattern in (_UPSTREAM, _PACKAGING)
        )
        if not upstream or not packaging:
            raise UserError(
                f"the pin's files, {', '.join(files)}, are no source package's. Restore it"
            )
        archives = {name: self._file(pin, name, files[name], known.get(name)) for name in files}

        def make(out: Path) -> None:
            with self._report.progress(f"Indexing {upstream}"):
                write_tree(archives[upstream], upstream, out)

        tree = self._cache.tree(files[upstream], make)
        absent = left_out(_copyright(archives[packaging], packaging))
        return ArchiveSnapshot(tree, label=text_of(pin, "tag"), pin=dict(pin), absent=absent)

    def _file(self, pin: Pin, name: str, sha256: str, known: SourceFile | None) -> Path:
        file = self._cache.file(sha256)
        if file is not None:
            return file
        with self._cache.scratch() as directory, self._report.progress(f"Fetching {name} with apt"):
            if known is not None:
                fetched = self._archive.download(known, directory)
            else:
                fetched = self._archive.download_pinned(
                    text_of(pin, "package"), name, sha256, directory
                )
            file, digest = self._cache.keep(fetched)
        if digest != sha256:
            raise UserError(
                f"{name}: sha256 is {digest}, the pin says {sha256}. Distrust the mirror"
            )
        return file


def left_out(statement: str) -> Callable[[str], bool]:
    """Return a predicate for the paths that Debian removed from upstream's archive.

    `statement` is the text of debian/copyright. In its patterns, `*` also matches slashes. Debian's
    tools also remove git's own files.
    """
    match = re.search(r"^Files-Excluded:((?:.*)(?:\n[ \t].*)*)", statement, re.MULTILINE)
    patterns = [pattern.rstrip("/") for pattern in match[1].split()] if match else []
    both = [text for pattern in patterns for text in (pattern, f"{pattern}/*")]
    excluded = re.compile("|".join(map(fnmatch.translate, both)) or r"(?!)")

    def absent(path: str) -> bool:
        name = path.rpartition("/")[2]
        return name.startswith(".git") or bool(excluded.match(path))

    return absent


def _copyright(archive: Path, name: str) -> str:
    try:
        with tarfile.open(archive) as packed:
            member = packed.extractfile("debian/copyright")
            return member.read().decode("utf-8", "replace") if member else ""
    except KeyError:
        return ""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise EnvironmentProblem(f"{archive}, {name}: damaged: {error}. Delete it") from error
