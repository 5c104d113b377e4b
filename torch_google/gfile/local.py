# SPDX-License-Identifier: Apache-2.0
"""The local filesystem. Reading is plain `open()`; writing adds overhead per file, not per byte."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from typing import Any

from torch_google.gfile import checksum as checksums
from torch_google.gfile.failures import explained, failure
from torch_google.gfile.filesystem import FileStatus, Filesystem
from torch_google.gfile.location import locate
from torch_google.gfile.partial import Partial, is_partial, is_special, open_in_place, sweep
from torch_google.gfile.settings import settings
from torch_google.gfile.stream import LocalWriter


class LocalFilesystem(Filesystem):
    """The local filesystem. Writing to a missing directory raises FileNotFoundError."""

    def open_to_read(self, path: str) -> Any:
        with explained("cannot open", path):
            return open(_plain(path), "rb")

    def open_to_write(self, path: str, mode: str, checksum: str | None) -> Any:
        target = _plain(path)
        with explained("cannot write", path):
            if mode == "a" and checksum is None:
                return open_in_place(target, "ab")
            if not is_replaceable(target):
                return open_in_place(target, f"{mode}b")
            if mode == "x" and os.path.lexists(target):
                raise failure(errno.EEXIST, "it already exists", path)
            partial = Partial(target)
            try:
                writer = LocalWriter(partial, self._committer(path, mode, checksum), mode)
            except BaseException:
                partial.discard()
                raise
            return writer

    def status(self, path: str) -> FileStatus:
        with explained("no status", path):
            status = os.stat(_plain(path))
        is_directory = stat.S_ISDIR(status.st_mode)
        length = 0 if is_directory else status.st_size
        return FileStatus(length, is_directory, status.st_mtime, status.st_mode)

    def entries(self, path: str) -> dict[str, bool]:
        with explained("cannot list", path), os.scandir(_plain(path) or ".") as listing:
            return {
                entry.name: _is_directory(entry)
                for entry in sorted(listing, key=lambda entry: entry.name)
                if not (is_partial(entry.name) and entry.is_dir(follow_symlinks=False))
            }

    def is_link(self, path: str) -> bool:
        return os.path.islink(_plain(path))

    def make_directory(self, path: str, *, parents: bool) -> None:
        with explained("cannot make the directory", path):
            if not parents:
                os.mkdir(_plain(path))
                return
            try:
                os.makedirs(_plain(path), exist_ok=True)
            except FileExistsError:
                raise failure(errno.ENOTDIR, "it is a file", path) from None

    def remove(self, path: str) -> None:
        with explained("cannot remove", path):
            os.unlink(_plain(path))

    def remove_directory(self, path: str) -> None:
        target = _without_slash(_plain(path))
        with explained("cannot remove", path):
            if not os.path.islink(target):
                sweep(target)
            try:
                os.rmdir(target)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                # Listings hide files that are being written, so the directory may look empty to the
                # caller.
                reason = "it is not empty, or a file is being written in it"
                raise failure(errno.ENOTEMPTY, f"cannot remove: {reason}", path) from None

    def remove_tree(self, path: str) -> None:
        with explained("cannot remove", path):
            # With a trailing slash, the calls below would follow a link.
            target = _without_slash(_plain(path))
            if os.path.isdir(target) and not os.path.islink(target):
                shutil.rmtree(target)
            else:
                os.unlink(target)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        with explained("cannot rename", source):
            old, new = _plain(source), _plain(target)
            if not overwrite and os.path.lexists(new):
                raise failure(errno.EEXIST, "it already exists", target)
            os.replace(old, new)

    def sweep(self, path: str) -> None:
        with explained("cannot sweep", path):
            sweep(_plain(path) or ".")

    def _committer(self, path: str, mode: str, algorithm: str | None) -> Callable[[Partial], None]:
        def commit(partial: Partial) -> None:
            def replace_target() -> None:
                partial.commit(sync=settings().sync, exclusive=mode == "x")

            with explained("cannot write", path):
                try:
                    if algorithm is None:
                        replace_target()
                        return
                    with open(partial.reopen(), "rb") as file:
                        digest = checksums.digest(file, algorithm)
                    checksum_path = f"{path}.{algorithm}"
                    name = os.path.basename(partial.target)
                    checksums.replace(
                        *(replace_target, name, digest, self.read_text(checksum_path)),
                        lambda text: self.write_text(checksum_path, text),
                    )
                finally:
                    partial.discard()

        return commit


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # the path may be a link to itself, or not accessible
        return False


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path


def _plain(path: str) -> str:
    return locate(path).inner


def is_replaceable(target: str) -> bool:
    """Return whether a new file may replace `target`. It may not replace a pipe or a device."""
    if is_special(target):
        return False
    try:
        return stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError:
        return True
