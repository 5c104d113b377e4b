# SPDX-License-Identifier: Apache-2.0
"""Patches that a rule makes: with a header `Rewrite: <rule>` they are made anew, never merged."""

from __future__ import annotations

from collections.abc import Mapping

from tools.importer.engine import Decision
from tools.importer.series import Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

HEADER = "Rewrite"


def decide_rewrites(series: Series, new: Snapshot) -> dict[str, Decision]:
    """Return what the rules make of the new tree, as decisions on their patches. Raises UserError."""
    if not _has_rewrites(series):
        return {}
    # Late: rules need libcst, and many series have none.
    from tools.importer.rewrites import decisions

    return decisions(series, new, new.label)


def check_rewrites(series: Series, new: Snapshot, files: Mapping[str, Blob | None]) -> None:
    """Raise UserError where the new tree, with `files` of all patches in it, escapes a rule."""
    if not _has_rewrites(series):
        return
    from tools.importer.rewrites import check_guards

    check_guards(OverlaySnapshot(new, files), new.label)


def _has_rewrites(series: Series) -> bool:
    return any(HEADER in patch.header for patch in series.patches)
