# SPDX-License-Identifier: Apache-2.0
"""What every origin hands over: an upstream tree at one pin, read by path."""

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
    """One file: its bytes and its git mode (one of MODES; a link's bytes are its target's name)."""

    data: bytes
    mode: str = REGULAR

    @cached_property
    def oid(self) -> str:
        """The id that git gives these bytes: 40 hex digits, the mode not included."""
        return blob_id(self.data)


def blob_id(data: bytes) -> str:
    """Return git's SHA-1 id of a blob."""
    digest = hashlib.sha1(b"blob %d\x00" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


class Snapshot(Protocol):
    """An upstream tree that no longer changes. Reading never writes below the workspace."""

    @property
    def label(self) -> str:
        """The name that people use: a tag such as `v2.14.1`, or a short commit."""

    @property
    def commit(self) -> str | None:
        """Upstream's commit, 40 hex digits; None where the origin does not tell."""

    @property
    def pin(self) -> Mapping[str, object]:
        """What fetches these very bytes again: JSON data, `kind` first; hashes included."""

    def paths(self) -> Collection[str]:
        """Every file of the tree, by its path in upstream's repository."""

    def read(self, path: str) -> Blob | None:
        """Return one file, or None where the tree has none of that path."""

    def carries(self, path: str) -> bool:
        """Whether such a path would be here if upstream had it.

        A wheel has no tests and no C++ sources: False for those, so that a patch of them is
        `not applicable` and is kept, never taken for one whose file upstream removed.
        """


class DictSnapshot:
    """A tree that is held in memory: for tests, and for what a command has just made."""

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
    """A tree with some files replaced; None removes one."""

    def __init__(self, below: Snapshot, files: Mapping[str, Blob | None]) -> None:
        self.label = below.label
        self.commit = below.commit
        self.pin = below.pin
        self._below = below
        self._files = dict(files)

    def paths(self) -> Collection[str]:
        gone = {path for path, blob in self._files.items() if blob is None}
        return (set(self._below.paths()) | set(self._files)) - gone

    def read(self, path: str) -> Blob | None:
        return self._files[path] if path in self._files else self._below.read(path)

    def carries(self, path: str) -> bool:
        return path in self._files or self._below.carries(path)
