# SPDX-License-Identifier: Apache-2.0
"""Hash entire trees and wheels in parallel.

Threads are enough, because hashlib and zlib release the GIL. Each thread reuses one buffer, so
memory use does not grow with the size of the tree.
"""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from third_party.torch.unpack import Member, UnpackError, read_member
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.report import Report
from tools.importer.tree import Entry, entry_of

_T = TypeVar("_T")
_R = TypeVar("_R")
_THREADS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class WheelContents:
    """The files in a wheel, keyed by path. `damaged` maps unreadable paths to error messages."""

    members: dict[str, Member]
    damaged: dict[str, str]


def hash_tree(root: Path, report: Report) -> dict[str, Entry]:
    """Return an entry for each file and symlink under `root`, keyed by path.

    Raises UserError if `root` is not a directory, EnvironmentProblem if a file is unreadable.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such directory. Name the tree to compare")
    paths = [path for _, path in sorted(_sizes(root, ""), reverse=True)]  # large files first
    with report.progress(f"Hashing {root.name or root}", len(paths)) as progress:

        def work(path: str) -> Entry:
            entry = entry_of(root, path)
            progress.advance()
            return entry

        try:
            return dict(zip(paths, _parallel(work, paths), strict=True))
        except OSError as error:
            raise EnvironmentProblem(
                f"{error.filename}: {error.strerror}. Make the tree readable"
            ) from error


def hash_wheel(wheel: Path, report: Report) -> WheelContents:
    """Read and hash all files in `wheel`. Raises UserError if it is not a zip file."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            items = [item for item in archive.infolist() if not item.is_dir()]
    except zipfile.BadZipFile as error:
        raise UserError(f"{wheel}: {error}. Get the published wheel") from None
    except OSError as error:
        raise EnvironmentProblem(f"{wheel}: {error.strerror}. Get the published wheel") from error
    items.sort(key=lambda item: item.file_size, reverse=True)
    local = threading.local()
    opened: list[zipfile.ZipFile] = []
    with report.progress("Reading the wheel", len(items)) as progress:

        def work(item: zipfile.ZipInfo) -> Member | str:
            if not hasattr(local, "archive"):  # one file handle per thread, to avoid a lock
                local.archive = zipfile.ZipFile(wheel)
                opened.append(local.archive)
            try:
                return read_member(local.archive, item)
            except UnpackError as error:
                return str(error.__cause__)
            finally:
                progress.advance()

        try:
            results = list(zip(items, _parallel(work, items), strict=True))
        finally:
            for archive in opened:
                archive.close()
    return WheelContents(
        {item.filename: result for item, result in results if isinstance(result, Member)},
        {item.filename: result for item, result in results if isinstance(result, str)},
    )


def _parallel(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(work, items)


def _sizes(root: Path, prefix: str) -> Iterator[tuple[int, str]]:
    with os.scandir(root / prefix) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(root, f"{path}/")
            else:
                yield entry.stat(follow_symlinks=False).st_size, path
