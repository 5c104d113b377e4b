# SPDX-License-Identifier: Apache-2.0
"""Hash a directory tree: its names, contents, executable bits and symlink targets.

Timestamps, owners and empty directories are ignored, so identical trees have identical hashes on
every machine. The hash is the sha256 of the lines `<mode> <sha256> <path>`, sorted by the bytes of
the path. Modes are git's: 100644, 100755, and 120000 for a symlink, whose digest is the sha256 of
its target.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    """The git mode of a file or symlink, and the sha256 of its content."""

    mode: str
    digest: str


def tree_hash(root: Path) -> str:
    """Return the hex hash of the tree at `root`. Raises OSError if a file cannot be read."""
    return hash_entries(tree_entries(root))


def tree_entries(root: Path) -> dict[str, Entry]:
    """Return an entry for every file and link under `root`, keyed by path with forward slashes."""
    top = os.fspath(root)
    return {path: _entry(os.path.join(top, path), link) for path, link in _files(top, "")}


def entry_of(root: Path, path: str) -> Entry:
    """Return the entry of one file or link under `root`."""
    full = os.path.join(os.fspath(root), path)
    return _entry(full, os.path.islink(full))


def hash_entries(entries: Mapping[str, Entry]) -> str:
    """Return the hash of a tree, or of part of one, from its entries."""
    total = hashlib.sha256()
    for path in sorted(entries, key=os.fsencode):
        entry = entries[path]
        total.update(f"{entry.mode} {entry.digest} ".encode() + os.fsencode(path) + b"\n")
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of one file's bytes, in hex."""
    return _read(os.fspath(path))[1]


def _entry(full: str, link: bool) -> Entry:
    if link:
        return Entry("120000", hashlib.sha256(os.fsencode(os.readlink(full))).hexdigest())
    mode, digest = _read(full)
    return Entry("100755" if mode & 0o100 else "100644", digest)


def _read(full: str) -> tuple[int, str]:
    """Return a file's mode and digest. Most files are so small that one read is enough."""
    with open(full, "rb", buffering=0) as source:
        status = os.fstat(source.fileno())
        size = min(status.st_size + 1, _CHUNK)
        digest = hashlib.sha256()
        while data := source.read(size):
            digest.update(data)
        return status.st_mode, digest.hexdigest()


def _files(root: str, prefix: str) -> Iterator[tuple[str, bool]]:
    with os.scandir(os.path.join(root, prefix)) as entries:
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _files(root, f"{path}/")
            else:
                yield path, entry.is_symlink()
