# SPDX-License-Identifier: Apache-2.0
"""The interface of a pinned upstream tree, regardless of its origin."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
MODES = (REGULAR, EXECUTABLE, SYMLINK)


@dataclass(frozen=True)
class Blob:
    """The bytes and git mode (one of MODES) of a file. The bytes of a symlink are its target."""

    data: bytes
    mode: str = REGULAR

    @cached_property
    def oid(self) -> str:
        """Git's id for these bytes: 40 hex digits. It does not depend on the mode."""
        return blob_id(self.data)


def blob_id(data: bytes) -> str:
    """Return git's SHA-1 id of a blob."""
    digest = hashlib.sha1(b"blob %d\x00" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class Snapshot(Protocol):
    """An immutable upstream tree. Reading never writes to the workspace."""

    @property
    def label(self) -> str:
        """The name shown to users: a tag such as `v2.14.1`, or a short commit id."""

    @property
    def commit(self) -> str | None:
        """Upstream's commit, 40 hex digits; None if the origin does not record it."""

    @property
    def pin(self) -> Mapping[str, object]:
        """The JSON data from which this exact tree can be fetched: `kind`, names and hashes."""

    def paths(self) -> Collection[str]:
        """Return the paths of all files, relative to upstream's repository."""

    def read(self, path: str) -> Blob | None:
        """Return the file at `path`, or None if the tree has none."""

    def carries(self, path: str) -> bool:
        """Return whether this origin would contain `path` if upstream had it.

        A wheel, for example, contains no tests and no C++ sources. A patch to such a file is kept
        as `not applicable`, instead of being treated as a patch to a file that upstream removed.
        """


class DictSnapshot:
    """An in-memory tree, for tests and for trees that a command computes."""

    def __init__(
        self,
        label: str,
        files: Mapping[str, Blob],
        *,
        commit: str | None = None,
        pin: Mapping[str, object] | None = None,
    ) -> None:
        self.label = label
        self.commit = commit
        self.pin: Mapping[str, object] = pin or {"kind": "memory"}
        self._files = dict(files)

    def paths(self) -> Collection[str]:
        return self._files.keys()

    def read(self, path: str) -> Blob | None:
        return self._files.get(path)

    def carries(self, path: str) -> bool:
        return True


class OverlaySnapshot:
    """The tree `below`, overlaid with `files`. None deletes a file."""

    def __init__(self, below: Snapshot, files: Mapping[str, Blob | None]) -> None:
        self.label = below.label
        self.commit = below.commit
        self.pin = below.pin
        self._below = below
        self._files = dict(files)

    def paths(self) -> Collection[str]:
        removed = {path for path, blob in self._files.items() if blob is None}
        return (set(self._below.paths()) | set(self._files)) - removed

    def read(self, path: str) -> Blob | None:
        return self._files[path] if path in self._files else self._below.read(path)

    def carries(self, path: str) -> bool:
        return path in self._files or self._below.carries(path)
