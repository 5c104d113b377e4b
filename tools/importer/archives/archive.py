# SPDX-License-Identifier: Apache-2.0
"""Convert an archive of any format to a validated zip, whose files can be read by path.

A compressed tar does not support random access, so it is rewritten as a zip in one pass, using
little memory. Nothing is extracted to disk. The zip preserves the archive's file names. Its comment
records the top-level directory, which is not part of the tree, and the commit if it is known.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from tools.importer.archives.safe_path import check_link, check_nesting, check_path, is_gits_own
from tools.importer.errors import UserError
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK

_EPOCH = (1980, 1, 1, 0, 0, 0)
_CHUNK = 1 << 20
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BAD_ARCHIVE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    lzma.LZMAError,
    zlib.error,
)


@dataclass(frozen=True)
class Summary:
    """The comment of a zip written by write_tree. `top` is empty or ends with a slash."""

    top: str
    commit: str | None


@dataclass(frozen=True)
class _Member:
    """A file (`data`), a symlink (`link`), a hard link (to `same`), or a directory."""

    path: str
    mode: str = REGULAR
    data: IO[bytes] | None = None
    link: str | None = None
    same: str | None = None


def write_tree(archive: Path, name: str, out: Path) -> None:
    """Rewrite `archive` as a zip at `out`. Raises UserError if it is corrupt.

    The error message refers to the archive as `name`.
    """
    try:
        with archive.open("rb") as start:
            is_zip = start.read(2) == b"PK"
        if is_zip:
            with zipfile.ZipFile(archive) as packed:
                _Writer(out, name).write(_zip_members(packed), packed)
        else:
            with _decompressed(archive) as plain:
                counted = _Counted(plain)
                with tarfile.open(
                    fileobj=cast(IO[bytes], counted),  # tarfile calls only `read` on this reader
                    mode="r|",
                    encoding="utf-8",
                    errors="surrogateescape",
                ) as tar:
                    _Writer(out, name).write(_tar_members(tar, name), tar)
                    counted.check_end(tar.offset)
    except _BAD_ARCHIVE as error:
        raise UserError(
            f"{name}: not a whole archive (tar, plain or .gz, .bz2, .xz; or zip): {error}."
            " Get it again, or repack it"
        ) from error


def read_summary(tree: zipfile.ZipFile) -> Summary:
    """Return the summary that write_tree stored in the zip's comment."""
    data = json.loads(tree.comment)
    return Summary(data["top"], data["commit"])


def mode_of(info: zipfile.ZipInfo) -> str:
    """Return the git file mode of a zip member."""
    mode = info.external_attr >> 16
    if mode & 0o170000 == 0o120000:
        return SYMLINK
    return EXECUTABLE if mode & 0o100 else REGULAR


class _Writer:
    def __init__(self, out: Path, name: str) -> None:
        self._out, self._name = out, name
        self._modes: dict[str, str] = {}
        self._links: dict[str, str] = {}
        self._hard: dict[str, str] = {}
        self._directories: set[str] = set()

    def write(self, members: Iterator[_Member], source: tarfile.TarFile | zipfile.ZipFile) -> None:
        with zipfile.ZipFile(self._out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as tree:
            for member in members:
                self._add(tree, member)
        with zipfile.ZipFile(self._out, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as tree:
            for path, same in self._hard.items():
                self._add_again(tree, path, same)
            if not self._modes:
                raise UserError(f"{self._name}: no file in it. Name an archive of a source tree")
            top = _top(self._modes)
            self._check(top)
            for directory in sorted(self._directories - _parents(self._modes)):
                tree.writestr(zipfile.ZipInfo(f"{directory}/", _EPOCH), b"")
            # `git archive` records the commit in a zip's comment or in a tar's pax header.
            comment = (
                source.comment.decode("latin-1")
                if isinstance(source, zipfile.ZipFile)
                else (source.pax_headers.get("comment", ""))
            )
            commit = comment if _COMMIT.fullmatch(comment) else None
            tree.comment = json.dumps({"top": top, "commit": commit}).encode()

    def _add(self, tree: zipfile.ZipFile, member: _Member) -> None:
        path = _plain(member.path)
        if is_gits_own(path):
            return  # skip git's own files in an archive of a checkout
        check_path(path, self._name)
        if path in self._modes or path in self._hard:
            raise UserError(f"{self._name}: {path!r} is in it twice. Repack it")
        if member.same is not None:
            self._hard[path] = check_path(_plain(member.same), self._name)
            return
        if member.link is None and member.data is None:
            self._directories.add(path)
            return
        self._modes[path] = member.mode
        info = _info(path, member.mode)
        if member.link is not None:
            self._links[path] = member.link
            tree.writestr(info, member.link.encode("utf-8", "surrogateescape"))
        elif member.data is not None:
            with tree.open(info, "w", force_zip64=True) as target:
                shutil.copyfileobj(member.data, target, _CHUNK)

    def _add_again(self, tree: zipfile.ZipFile, path: str, same: str) -> None:
        """Write a hard link as a copy, because zips and git trees have no hard links."""
        if same not in self._modes:
            raise UserError(f"{self._name}: {path!r} is a link to {same!r}, which is not in it")
        self._modes[path] = self._modes[same]
        tree.writestr(_info(path, self._modes[same]), tree.read(same))

    def _check(self, top: str) -> None:
        for path in self._modes:
            check_path(path.removeprefix(top), self._name)
        for path, target in self._links.items():
            check_link(path.removeprefix(top), target, self._name)
        check_nesting(self._modes, self._name)


def _decompressed(archive: Path) -> IO[bytes]:
    """Return a stream of the uncompressed tar, for gzip, bz2, xz or plain input."""
    with archive.open("rb") as start:
        magic = start.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(archive)  # type: ignore[return-value]
    if magic.startswith(b"BZh"):
        return bz2.open(archive)
    return lzma.open(archive) if magic == b"\xfd7zXZ\x00" else archive.open("rb")


class _Counted:
    """A reader that counts bytes, because tarfile does not detect truncation between members."""

    def __init__(self, plain: IO[bytes]) -> None:
        self._plain, self._count = plain, 0

    def read(self, size: int) -> bytes:
        try:
            data = self._plain.read(size)
        except OSError as error:  # bz2 and gzip raise OSError for corrupt data
            raise tarfile.ReadError(str(error)) from error
        self._count += len(data)
        return data

    def check_end(self, offset: int) -> None:
        """Read to the end to verify checksums. Raises EOFError if the tar is truncated."""
        while self.read(_CHUNK):
            pass
        if self._count < offset + tarfile.BLOCKSIZE:
            raise EOFError("its end is missing")


def _tar_members(tar: tarfile.TarFile, name: str) -> Iterator[_Member]:
    for item in tar:
        if item.issym():
            yield _Member(item.name, SYMLINK, link=item.linkname)
        elif item.islnk():
            yield _Member(item.name, same=item.linkname)
        elif item.isreg():
            yield _Member(
                item.name, EXECUTABLE if item.mode & 0o100 else REGULAR, tar.extractfile(item)
            )
        elif not item.isdir():
            raise UserError(f"{name}: {item.name!r} is neither file, link nor directory. Repack it")
        elif item.name not in (".", ""):
            yield _Member(item.name)


def _zip_members(packed: zipfile.ZipFile) -> Iterator[_Member]:
    for item in packed.infolist():
        mode = mode_of(item)
        if item.is_dir():
            yield _Member(item.filename.rstrip("/"))
        elif mode == SYMLINK:
            target = packed.read(item).decode("utf-8", "surrogateescape")
            yield _Member(item.filename, SYMLINK, link=target)
        else:
            with packed.open(item) as data:
                yield _Member(item.filename, mode, data)


def _info(path: str, mode: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path, _EPOCH)
    info.external_attr = int(mode, 8) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _plain(path: str) -> str:
    """Strip the leading `./` that `tar -c .` writes. Raises UserError if `path` is not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"the file name {path!r} in the archive is not UTF-8. Repack it") from None
    return path.removeprefix("./") or path


def _top(paths: dict[str, str]) -> str:
    """Return the directory that contains all files, with a trailing slash; "" if there is none.

    A Python package does not count as a top-level directory.
    """
    first, _, rest = next(iter(paths)).partition("/")
    around = f"{first}/"
    if not rest or not all(path.startswith(around) for path in paths):
        return ""
    return "" if f"{around}__init__.py" in paths else around


def _parents(paths: dict[str, str]) -> set[str]:
    parents: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in parents:
            parents.add(path)
    return parents
