# SPDX-License-Identifier: Apache-2.0
"""Files in a store, through an fsspec filesystem.

A written file is buffered on this machine until it is closed, and then uploaded in one piece.
Either the store commits the upload atomically, as object stores do, or gfile uploads the file under
a temporary name and then renames it. So a failed upload can be repeated and leaves the old file in
place.
"""

from __future__ import annotations

import errno
import io
import logging
import sys
import tempfile
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import IO, Any, TypeVar

from torch_google.gfile import checksum as checksums
from torch_google.gfile.failures import explained, failure, is_absence, is_transient
from torch_google.gfile.filesystem import FileStatus, Filesystem
from torch_google.gfile.location import locate
from torch_google.gfile.partial import is_partial
from torch_google.gfile.primitives import Primitives
from torch_google.gfile.retry import Retry
from torch_google.gfile.settings import settings
from torch_google.gfile.stream import StoreReader, StoreWriter
from torch_google.gfile.upload import is_uploaded, upload

_T = TypeVar("_T")
_log = logging.getLogger("torch_google.gfile")
_PIECE = 8 << 20
# The minimum number of bytes per read. Small reads are slow, because each one may need a second
# request that checks whether the file has changed.
_READ_AHEAD = 1 << 20
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_IDENTITY = ("ETag", "etag", "generation")
_VERSION = ("ETag", "etag", "generation", *_MODIFIED)


class StoreFilesystem(Filesystem):
    """A gfile filesystem that uses one of fsspec's filesystems.

    `inside` maps a full path to the path within the store.
    """

    def __init__(
        self,
        system: Any,
        inside: Callable[[str], str],
        *,
        retry: Retry | None = None,
        rename_commits: bool = False,
        read_only: bool = False,
    ) -> None:
        from fsspec.implementations.memory import MemoryFileSystem

        self._system = system
        self._inside = inside
        self._own_retry = retry
        self._rename_commits = rename_commits
        self._read_only = read_only
        own = system.protocol
        self._protocols = {own} if isinstance(own, str) else {*own}
        self._has_pages = not self._protocols.isdisjoint({"http", "https"})
        # MemoryFileSystem returns the stored object itself as the open file, so all of its readers
        # would share one position.
        self._in_memory = getattr(type(system), "_open", None) is MemoryFileSystem._open

    def open_to_read(self, path: str) -> Any:
        inner = self._inside(path)
        with explained("cannot open", path):
            if self._in_memory:
                if self._status(path).is_directory:
                    raise failure(errno.EISDIR, "it is a directory", path)
                if _names_directory(path):
                    raise failure(errno.ENOTDIR, "it is a file", path)
                content = io.BytesIO(self._stored(inner))
                length = len(content.getbuffer())
                return _buffered(StoreReader(path, lambda: content, length, self._retry))
            first = self._first_opened(path, inner)
            version = _version(first)
            if getattr(first, "size", None) is None:
                return self._spooled(path, inner, first)
            waiting = [first]

            def open_again() -> Any:
                file = waiting.pop() if waiting else self._system.open(inner, "rb")
                if _version(file) != version:
                    file.close()
                    raise failure(errno.ESTALE, "it changed while it was read", path)
                return file

            check = self._change_check(path, inner, first)
            return _buffered(StoreReader(path, open_again, first.size, self._retry, check))

    def open_to_write(self, path: str, mode: str, checksum: str | None) -> Any:
        self._check_writable(path)
        with explained("cannot write", path):
            present = self._present(path)
            if present is not None and present.is_directory:
                raise failure(errno.EISDIR, "it is a directory", path)
            if mode == "x" and present is not None:
                raise failure(errno.EEXIST, "it already exists", path)

        def commit(spool: IO[bytes]) -> None:
            with explained("cannot write", path):
                if mode == "x" and self._present(path) is not None:
                    raise failure(errno.EEXIST, "another process created it", path)
                self._commit(path, spool, checksum)

        writer = StoreWriter(path, commit, spool=not self._in_memory)
        if mode == "a" and present is not None:
            try:
                with self.open_to_read(path) as old:
                    while piece := old.read(_PIECE):
                        writer.write(piece)
            except BaseException:
                writer.discard()
                raise
        return writer

    def status(self, path: str) -> FileStatus:
        with explained("no status", path):
            status = self._status(path)
            if not status.is_directory and _names_directory(path):
                raise failure(errno.ENOTDIR, "it is a file", path)
            return status

    def entries(self, path: str) -> dict[str, bool]:
        inner = self._inside(path)
        with explained("cannot list", path):
            self._system.invalidate_cache(inner)
            listing = self._call(lambda: self._system.ls(inner, detail=True), path)
            own = inner.strip("/")
            if [entry["name"].strip("/") for entry in listing] == [own] and (
                listing[0]["type"] == "file"
            ):
                raise failure(errno.ENOTDIR, "it is a file", path)
        is_directory = {
            entry["name"].rstrip("/").rpartition("/")[2]: entry["type"] == "directory"
            for entry in listing
            # Some stores list the directory's own marker among its entries.
            if entry["name"].strip("/") != own
        }
        hidden = is_partial if self._rename_commits else lambda name: False
        return {name: is_directory[name] for name in sorted(is_directory) if not hidden(name)}

    def make_directory(self, path: str, *, parents: bool) -> None:
        self._check_writable(path)
        inner = self._inside(path)
        with explained("cannot make the directory", path):
            present = self._present(path)
            if present is not None and not present.is_directory:
                raise failure(errno.ENOTDIR if parents else errno.EEXIST, "it is a file", path)
            if present is not None:
                if not parents:
                    raise failure(errno.EEXIST, "it already exists", path)
                return
            parent = str(locate(path).parent)
            if not parents and locate(path).parent.inner and not self.exists(parent):
                raise failure(errno.ENOENT, "its parent does not exist", path)
            if parents:
                self._call(lambda: self._system.makedirs(inner, exist_ok=True), path)
                return
            # If the first attempt's response is lost, the retry finds the directory that this
            # attempt created, and must not raise FileExistsError.
            primitives = self._primitives(path, ask_again=False)
            self._call(lambda: primitives.make_directory(inner), path, settled=_ignore_present)

    def remove(self, path: str) -> None:
        self._check_writable(path)
        inner = self._inside(path)
        with explained("cannot remove", path):
            if self.status(path).is_directory:
                raise failure(errno.EISDIR, "it is a directory", path)
            # The file existed a moment ago. If a retry finds it missing, the first attempt removed
            # it and only its response was lost.
            self._primitives(path).remove_files([inner])

    def remove_tree(self, path: str) -> None:
        self._check_writable(path)
        inner = self._inside(path)
        primitives = self._primitives(path)
        with explained("cannot remove", path):
            is_directory = self.status(path).is_directory
            files = primitives.tree(inner).files
            primitives.remove_files(files if is_directory else [*files, inner])
            # In a store with real directories, the directories still exist. A file with the same
            # name as a directory may also exist, because the first listing hid it.
            remaining = primitives.tree(inner)
            primitives.remove_files(remaining.files)
            directories = remaining.directories
            primitives.remove_directories([inner, *directories] if is_directory else directories)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        self._check_writable(target)
        old, new = self._inside(source), self._inside(target)
        with explained("cannot rename", source):
            is_directory = self.status(source).is_directory
            present = self._present(target)
            if not is_directory and _names_directory(target):
                raise failure(errno.ENOTDIR, "a file's name cannot end with a slash", target)
            if present is not None and not overwrite:
                raise failure(errno.EEXIST, "it already exists", target)
            if present is not None and (present.is_directory or is_directory):
                raise failure(errno.ENOTEMPTY, "it already exists", target)
            if old == new:
                return
            if is_directory and new.startswith(f"{old.rstrip('/')}/"):
                raise failure(
                    errno.EINVAL, f"a directory cannot be moved into itself: {source}", target
                )
            if self._primitives(source).renames:
                self._rename_at_once(source, target, old, new)
            elif is_directory:
                self._move_tree(source, old, new)
            else:
                self._primitives(source).copy_files([(old, new)])
                self._primitives(source).remove_files([old])

    def _rename_at_once(self, source: str, target: str, old: str, new: str) -> None:
        def check_target(error: Exception) -> None:
            if not isinstance(error, FileNotFoundError) or self._present(target) is None:
                raise error

        primitives = self._primitives(source, ask_again=False)
        self._call(lambda: primitives.rename(old, new), source, settled=check_target)

    def _move_tree(self, source: str, old: str, new: str) -> None:
        """Copy a tree, then remove exactly the files that were copied and the directory markers.

        Markers are not copied, because clients drop the trailing slash from the source's name. If
        an object with a trailing slash has content, raise EINVAL before anything changes.
        """
        primitives = self._primitives(source)
        tree = primitives.tree(old)
        files = [name for name in tree.files if name not in tree.markers]
        for name in files:
            if name.endswith("/"):
                reason = f"cannot copy {name!r}: it has content, and its name ends with a slash"
                raise failure(errno.EINVAL, reason, source)

        def moved_name(name: str) -> str:
            # Remove only one slash, because `a//b` and `a/b` are different objects.
            below = name.lstrip("/").removeprefix(old.strip("/")).removeprefix("/")
            return f"{new.rstrip('/')}/{below}"

        primitives.copy_files([(name, moved_name(name)) for name in files])
        for name in tree.empty_directories or ([] if files else [old]):
            directory = moved_name(name).rstrip("/")
            self._call(lambda: self._system.makedirs(directory, exist_ok=True), source)  # noqa: B023
        primitives.remove_files(tree.files)
        remaining = set(primitives.tree(old).directories)
        directories = [name for name in tree.directories if name in remaining]
        primitives.remove_directories([old, *directories])

    @property
    def _retry(self) -> Retry:
        return self._own_retry or settings().retry

    def _call(
        self,
        action: Callable[[], _T],
        path: str,
        settled: Callable[[Exception], Any] | None = None,
    ) -> _T:
        return self._retry.call(action, path, settled=settled)

    def _primitives(self, path: str, *, ask_again: bool = True) -> Primitives:
        return Primitives(
            self._system,
            (lambda call: self._call(call, path)) if ask_again else (lambda call: call()),
        )

    def _first_opened(self, path: str, inner: str) -> Any:
        """Open a file for the first time.

        Raises IsADirectoryError for a directory, or NotADirectoryError if the path of a file ends
        with a slash.
        """
        if _names_directory(path) and not self._has_pages:
            self.status(path)
            raise failure(errno.EISDIR, "it is a directory", path)
        handled = sys.exc_info()[1]
        try:
            file = self._call(lambda: self._system.open(inner, "rb"), path)
        except Exception as error:
            # Some filesystems raise FileNotFoundError or another error for a directory.
            if not is_transient(error, handled=handled) and self.is_directory(path):
                raise failure(errno.EISDIR, "it is a directory", path) from error
            raise
        details = getattr(file, "details", None)
        if isinstance(details, dict) and details.get("type") == "directory":
            file.close()
            raise failure(errno.EISDIR, "it is a directory", path)
        return file

    def _change_check(self, path: str, inner: str, file: Any) -> Callable[[], None] | None:
        """Return a function that raises if the file has changed since it was opened.

        gcsfs and fsspec's HTTP filesystem request each block by name only, which could mix blocks
        from two versions. s3fs needs no check, because it requests the ETag of the version that it
        opened.
        """
        details = getattr(file, "details", None)
        if not hasattr(file, "_fetch_range") or not isinstance(details, dict):
            return None
        known = {key: details[key] for key in _IDENTITY if details.get(key) is not None}
        if not known or "s3" in self._protocols:
            return None

        def check() -> None:
            self._system.invalidate_cache(inner)
            info = self._system.info(inner)
            if any(info.get(key, value) != value for key, value in known.items()):
                raise failure(errno.ESTALE, "it changed while it was read", path)

        return check

    def _stored(self, inner: str) -> bytes:
        try:
            # The result needs no copy, because bytes are immutable.
            return self._system.store[self._system._strip_protocol(inner)].getvalue()
        except KeyError:
            raise FileNotFoundError(inner) from None

    def _status(self, path: str) -> FileStatus:
        inner = self._inside(path)
        self._system.invalidate_cache(inner)
        info = self._call(lambda: self._system.info(inner), path)
        # Over HTTP, a directory is a page whose URL ends with a slash after redirects.
        is_directory = info["type"] == "directory" or str(info.get("url", "")).endswith("/")
        return FileStatus(0 if is_directory else info["size"] or 0, is_directory, _modified(info))

    def _present(self, path: str) -> FileStatus | None:
        try:
            return self._status(path)
        except Exception as error:
            if is_absence(error):
                return None
            raise

    def _check_writable(self, path: str) -> None:
        if self._read_only:
            raise failure(errno.EROFS, f"{locate(path).scheme}:// is read-only", path)

    def _has(self, path: str, inner: str, spool: IO[bytes]) -> bool:
        """Return whether the store contains these bytes even though the upload raised an error."""
        self._system.invalidate_cache()
        try:
            info = self._call(lambda: self._system.info(inner), path)
        except FileNotFoundError:
            return False
        return is_uploaded(spool, info, lambda: self.open_to_read(path))

    def _spooled(self, path: str, inner: str, first: Any) -> IO[bytes]:
        """Copy a stream that cannot seek to an unnamed local file."""
        spool: IO[bytes] = tempfile.TemporaryFile(prefix="gfile-")  # noqa: SIM115 - returned
        waiting = [first]

        def fetch() -> None:
            with waiting.pop() if waiting else self._system.open(inner, "rb") as file:
                while piece := file.read(_PIECE):
                    spool.write(piece)

        def restart() -> None:
            spool.seek(0)
            spool.truncate()

        try:
            self._retry.call(fetch, path, reset=restart)
        except BaseException:
            spool.close()
            raise
        spool.seek(0)
        return spool

    def _commit(self, path: str, spool: IO[bytes], algorithm: str | None) -> None:
        inner = self._inside(path)

        def upload_once() -> None:
            if not self._rename_commits:
                upload(self._system, inner, spool)
                return
            head, slash, name = inner.rpartition("/")
            temporary = f"{head}{slash}.{name}.partial-{uuid.uuid4().hex}"
            primitives = self._primitives(path, ask_again=False)
            try:
                upload(self._system, temporary, spool)
                if primitives.renames:
                    primitives.rename(temporary, inner)
                else:
                    primitives.copy_files([(temporary, inner)])
                    primitives.remove_files([temporary])
            except BaseException:
                primitives.remove_files([temporary])
                raise

        def upload_with_retries() -> None:
            try:
                self._call(upload_once, path)
            except Exception as error:
                if not is_absence(error) or not self._has(path, inner, spool):
                    raise
                _log.info("%s: it was written, although the store returned %r", path, error)

        if algorithm is None:
            upload_with_retries()
            return
        digest = checksums.digest(spool, algorithm)
        checksum_path = str(locate(path).parent.join(f"{locate(path).name}.{algorithm}"))
        checksums.replace(
            *(upload_with_retries, locate(path).name, digest, self.read_text(checksum_path)),
            lambda text: self.write_text(checksum_path, text),
        )


def _buffered(raw: StoreReader) -> io.BufferedReader:
    return io.BufferedReader(raw, _READ_AHEAD)


def _version(file: Any) -> tuple[object, ...]:
    details = getattr(file, "details", None)
    details = details if isinstance(details, dict) else {}
    return (getattr(file, "size", None), *(str(details.get(key)) for key in _VERSION))


def _modified(info: dict[str, Any]) -> float | None:
    for key in _MODIFIED:
        value = info.get(key)
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, str):
            try:
                return datetime.fromisoformat(value).timestamp()
            except ValueError:
                continue  # the time is not in ISO format
    return None


def _names_directory(path: str) -> bool:
    """Return whether a path other than a root ends with a slash, and so must name a directory."""
    inner = locate(path).inner
    return inner.endswith("/") and inner.strip("/") != ""


def _ignore_present(error: Exception) -> None:
    if not isinstance(error, FileExistsError):
        raise error
