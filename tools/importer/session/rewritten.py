# SPDX-License-Identifier: Apache-2.0
"""Patches that a rule makes: with a header `Rewrite: <rule>` they are made anew, never merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tools.importer.engine import Decision
from tools.importer.series import Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

if TYPE_CHECKING:
    from tools.importer.rewrites import Modules

HEADER = "Rewrite"


class Rewrites:
    """The rules on one new tree: what they learn of its files to decide serves to check as well."""

    def __init__(self, new: Snapshot) -> None:
        self.unread: tuple[str, ...] = ()  # files that the rules should know and could not read
        self._new = new
        self._modules: Modules | None = None

    def decide(self, series: Series) -> dict[str, Decision]:
        """Return what the rules make of the tree, as decisions on their patches. Raises UserError."""
        if not _has_rewrites(series):
            return {}
        # Late: rules need libcst, and many series have none.
        from tools.importer.rewrites import Modules, decisions

        self._modules = self._modules or Modules()
        return decisions(series, self._new, self._new.label, modules=self._modules)

    def check(self, series: Series, files: Mapping[str, Blob | None]) -> None:
        """Raise UserError where the tree, with `files` of all patches in it, escapes a rule."""
        if not _has_rewrites(series):
            return
        from tools.importer.rewrites import check_guards

        patched = OverlaySnapshot(self._new, files)
        self.unread = check_guards(patched, self._new.label, modules=self._modules)


def decide_rewrites(series: Series, new: Snapshot) -> dict[str, Decision]:
    """Return what the rules make of the new tree, as decisions on their patches. Raises UserError."""
    return Rewrites(new).decide(series)


def check_rewrites(series: Series, new: Snapshot, files: Mapping[str, Blob | None]) -> None:
    """Raise UserError where the new tree, with `files` of all patches in it, escapes a rule."""
    Rewrites(new).check(series, files)


def _has_rewrites(series: Series) -> bool:
    return any(HEADER in patch.header for patch in series.patches)
