# SPDX-License-Identifier: Apache-2.0
"""The interface of builders. import.json names one under `builder`; the default is `tree`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.series import Series
from tools.importer.snapshot import Snapshot
from tools.importer.verify import Rebuilt


class Builder(Protocol):
    """The interface of a builder. All methods raise UserError for a bad pin."""

    def origin_pin(self, project: Project) -> Mapping[str, object]:
        """Return the origin's part of the build's pin, which opens upstream's tree."""

    def after_import(
        self, project: Project, new: Snapshot, files: Mapping[str, bytes], report: Report
    ) -> dict[str, object] | None:
        """Return the new content of pin.json for `new` with the series `files`.

        None if this builder cannot use the origin, so that the build stays at its release.
        """

    def after_edit(
        self, project: Project, snapshot: Snapshot, series: Series, wheel: Callable[[], Path]
    ) -> tuple[bytes, str]:
        """Return pin.json's bytes and the tree hash for another series of the same release.

        `wheel` returns the pinned wheel's path, for builders that need the whole file.
        """

    def rebuild(self, project: Project, wheel: Path | None, report: Report) -> Rebuilt:
        """Rebuild the pinned tree, and name each difference. `wheel` replaces a download."""

    def is_generated(self, project: Project, path: str) -> bool:
        """Return whether the build writes this file next to the pinned tree."""
