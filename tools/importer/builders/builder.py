# SPDX-License-Identifier: Apache-2.0
"""The interface of builders. import.json selects one with `builder`; the default is `tree`."""

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
    """The interface of a builder. All methods raise UserError for an invalid pin."""

    def origin_pin(self, project: Project) -> Mapping[str, object]:
        """Return the part of the pin from which `open_pin` opens upstream's tree."""

    def after_import(
        self, project: Project, new: Snapshot, files: Mapping[str, bytes], report: Report
    ) -> dict[str, object] | None:
        """Return the contents of pin.json for release `new` with the patch series `files`.

        Returns None if this builder does not support the origin; the build then stays at its
        current release.
        """

    def after_edit(
        self, project: Project, snapshot: Snapshot, series: Series, wheel: Callable[[], Path]
    ) -> tuple[bytes, str]:
        """Return the bytes of pin.json and the tree hash after an edit of the patch series.

        `wheel` returns the path of the pinned wheel, for builders that need it.
        """

    def rebuild(self, project: Project, wheel: Path | None, report: Report) -> Rebuilt:
        """Rebuild the pinned tree, from `wheel` if given, and report each difference."""

    def is_generated(self, project: Project, path: str) -> bool:
        """Return whether the build generates this file in addition to the pinned tree."""
