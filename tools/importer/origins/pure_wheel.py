# SPDX-License-Identifier: Apache-2.0
"""The tree of a wheel that contains only upstream's own files, as wheels without native code do.

Only RECORD is omitted, because patches would invalidate it. A wheel with compiled code needs the
setting `contents`, which distinguishes compiled files from upstream's (wheel_contents.py).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tools.importer.archives.archive import write_tree
from tools.importer.archives.zip_tree import ArchiveSnapshot
from tools.importer.errors import UserError
from tools.importer.origins.cache import Cache
from tools.importer.origins.origin import Pin, text_of
from tools.importer.origins.wheel_contents import WheelContents, kind_of
from tools.importer.snapshot import Blob

_INFO = ".dist-info/"


class PureWheelSnapshot:
    """A pure-Python wheel as a tree. `carries` returns False for kinds of files that it lacks."""

    commit = None
    natives = True

    def __init__(self, file: Path, cache: Cache, pin: Pin) -> None:
        filename = text_of(pin, "filename")
        tree = cache.tree(text_of(pin, "sha256"), lambda out: write_tree(file, filename, out))
        self._tree = ArchiveSnapshot(tree, label=text_of(pin, "tag"), pin=pin)
        self._paths = frozenset(
            path for path in self._tree.paths() if not path.endswith(f"{_INFO}RECORD")
        )
        self._kinds = {kind_of(path) for path in self._paths}
        roots = {path.partition("/")[0] for path in self._paths if _INFO not in path}
        self._contents = WheelContents(tuple(sorted(roots)))
        natives = sorted(path for path in self._paths if not self._upstreams(path))
        if natives:
            raise UserError(
                f"{filename}: {natives[0]} is compiled, and only wheels without compiled files can"
                " be imported as they are. Import the sdist or git, or describe the wheel with"
                " 'contents' (tools/importer/origins/README.md)"
            )
        self.pin = dict(pin)
        self.label = text_of(pin, "tag")

    def paths(self) -> Collection[str]:
        return self._paths

    def read(self, path: str) -> Blob | None:
        return self._tree.read(path) if path in self._paths else None

    def carries(self, path: str) -> bool:
        return path in self._paths or self._contents.would_hold(path, self._kinds)

    def _upstreams(self, path: str) -> bool:
        return _INFO in path or self._contents.is_upstream(path)
