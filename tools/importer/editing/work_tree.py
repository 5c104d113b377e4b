# SPDX-License-Identifier: Apache-2.0
"""Write the tree that the user edits, and detect changes to it.

This does not need git: the blob id of each file is recorded, and a file has changed if its id
differs later. Files left behind by editors and interpreters are ignored.
"""

from __future__ import annotations

import fnmatch
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.report import Report
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, Blob

LARGEST = 1 << 20
_SNIFFED = 8000
_RECORD = "tree.json"
_LEFT_BEHIND = (
    *("__pycache__", ".git", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".idea", ".vscode"),
    *("*.pyc", "*~", "#*#", ".*.swp", ".*.swo", "*.orig", "*.rej", ".DS_Store"),
)


class WorkTree:
    """The directory `root`/tree, and the record of the files written there."""

    def __init__(self, root: Path) -> None:
        self.files = root / "tree"
        self._record = root / _RECORD

    def write(self, blobs: Iterable[tuple[str, Blob]], report: Report, *, total: int) -> int:
        """Write a new tree, record its files, and return the number of files."""
        record: dict[str, list[str]] = {}
        with report.progress("Writing the work tree", total) as progress:
            try:
                self.files.mkdir(parents=True)
                for path, blob in blobs:
                    _write(self.files / path, blob)
                    record[path] = [blob.mode, blob.oid]
                    progress.advance()
                self._record.write_text(json.dumps(record), encoding="utf-8")
            except OSError as error:
                raise EnvironmentProblem(
                    f"{error.filename or self.files}: {error.strerror}. Make room or give write permission there"
                ) from error
        return len(record)

    def changes(self, report: Report) -> dict[str, Blob | None]:
        """Return the changed and added files by path, with None for removed files.

        Raises UserError if the tree or its record cannot be read.
        """
        record = self._recorded()
        paths = {
            path for path in _walk(self.files, "") if path in record or not is_left_behind(path)
        }
        with report.progress("Looking for changes", len(paths)) as progress:

            def look(path: str) -> tuple[str, Blob | None]:
                blob = _read(self.files / path)
                progress.advance()
                return path, None if [blob.mode, blob.oid] == record.get(path) else blob

            with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
                changed = {path: blob for path, blob in pool.map(look, sorted(paths)) if blob}
        gone: dict[str, Blob | None] = dict.fromkeys(record.keys() - paths)
        return dict(sorted((changed | gone).items()))

    def _recorded(self) -> Mapping[str, list[str]]:
        try:
            record: dict[str, list[str]] = json.loads(self._record.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError) as error:
            raise UserError(
                f"{self._record}: {error}. Keep your files, then `import.py abort` and edit again"
            ) from None
        if not self.files.is_dir():
            raise UserError(f"{self.files}: no such directory. `import.py abort` and edit again")
        return record


def is_text(blob: Blob) -> bool:
    """Return whether the user may edit a file: it is neither binary nor a huge generated file."""
    return len(blob.data) <= LARGEST and b"\0" not in blob.data[:_SNIFFED]


def is_left_behind(path: str) -> bool:
    """Return whether a path is a file that a tool left behind, such as a backup or a cache."""
    return any(
        fnmatch.fnmatchcase(part, pattern) for part in path.split("/") for pattern in _LEFT_BEHIND
    )


def _write(target: Path, blob: Blob) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if blob.mode == SYMLINK:
        target.symlink_to(os.fsdecode(blob.data))
        return
    target.write_bytes(blob.data)
    target.chmod(0o755 if blob.mode == EXECUTABLE else 0o644)


def _read(file: Path) -> Blob:
    try:
        if file.is_symlink():
            return Blob(os.fsencode(os.readlink(file)), SYMLINK)
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would block forever
            raise UserError(f"{file}: neither a file nor a link. Move it out of the work tree")
        return Blob(file.read_bytes(), EXECUTABLE if status.st_mode & 0o100 else REGULAR)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}. Make it a file that can be read") from None


def _walk(root: Path, prefix: str) -> Iterator[str]:
    with os.scandir(root / prefix) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(root, f"{path}/")
            else:
                yield path
