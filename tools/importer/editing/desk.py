# SPDX-License-Identifier: Apache-2.0
"""The edit directory `.import/edit`, where the user edits one patch as a tree and a header."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from tools.importer.editing.release import Release
from tools.importer.editing.series_edit import tree_up_to
from tools.importer.editing.work_tree import WorkTree, is_text
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.report import Report
from tools.importer.session import DESK
from tools.importer.snapshot import Blob, OverlaySnapshot

_STAGED = f"{DESK}.new"
_HEADER = "header"


class Desk:
    """A workspace's edit directory. `state` is the project's state directory."""

    def __init__(self, state: Path) -> None:
        self.root = state / DESK
        self._staged = state / _STAGED
        self.tree = WorkTree(self.root)
        self.header_file = self.root / _HEADER

    def lay_out(
        self,
        release: Release,
        count: int,
        header: bytes,
        report: Report,
        *,
        only: Collection[str] = (),
    ) -> int:
        """Write upstream's text files with the first `count` patches applied.

        Files that those patches touch are included even if they are binary. `only` limits the
        paths. The directory is created atomically and replaces an earlier one. Return the number of
        files.
        """
        touched = tree_up_to(release, count)
        tree = OverlaySnapshot(release.snapshot, touched)
        paths = sorted(only or tree.paths())

        def blobs() -> Iterator[tuple[str, Blob]]:
            for path in paths:
                blob = tree.read(path)
                if blob is not None and (path in touched or only or is_text(blob)):
                    yield path, blob

        try:
            _remove(self._staged)
            laid_out = WorkTree(self._staged).write(blobs(), report, total=len(paths))
            (self._staged / _HEADER).write_bytes(header.rstrip(b"\n") + b"\n")
            _remove(self.root)
            self._staged.rename(self.root)
        except OSError as error:
            raise EnvironmentProblem(
                f"{error.filename or self.root}: {error.strerror}. Make room or give write permission there"
            ) from error
        return laid_out

    def header(self) -> bytes:
        """Return the current header. Raises UserError if its file cannot be read."""
        try:
            return self.header_file.read_bytes()
        except OSError as error:
            raise UserError(
                f"{self.header_file}: {error.strerror}. Write the patch's header there"
            ) from None


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
