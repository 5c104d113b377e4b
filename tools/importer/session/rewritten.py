# SPDX-License-Identifier: Apache-2.0
"""Patches that a rule makes: with a header `Rewrite: <rule>` they are made anew, never merged.

The rule runs on the new tree with all earlier patches in it, and what it makes stands in for a person's
decision on that patch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from tools.importer.apply import apply_patch
from tools.importer.engine import Base, Decision, Resolved, carry
from tools.importer.errors import UserError
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot
from tools.importer.unified import DiffError, parse_diff

HEADER = "Rewrite"

Regenerate = Callable[[Series, Snapshot, Patch], bytes]


def decide_rewrites(
    series: Series,
    base: Base,
    new: Snapshot,
    decisions: Mapping[str, Decision],
    *,
    regenerate: Regenerate | None = None,
) -> dict[str, Decision]:
    """Return the decision on each patch of a rule, as far as the carry gets. Raises UserError.

    A person's own decision on such a patch stands.
    """
    made: dict[str, Decision] = {}
    for index, patch in enumerate(series.patches):
        if HEADER not in patch.header or patch.name in decisions:
            continue
        before = carry(
            dataclasses.replace(series, patches=series.patches[:index]),
            base,
            new,
            decisions={**made, **decisions},
        )
        if before.stopped:
            break
        tree = OverlaySnapshot(new, before.files)
        data = (regenerate or _by_rule)(series, tree, patch)
        made[patch.name] = Resolved(_files_after(series, tree, patch, data))
    return made


def _by_rule(series: Series, tree: Snapshot, patch: Patch) -> bytes:
    # Late: rules need libcst, and most series have none.
    from tools.importer.rewrites import regenerated_patch

    return regenerated_patch(patch, tree, tree.label)


def _files_after(
    series: Series, tree: Snapshot, patch: Patch, data: bytes
) -> dict[str, Blob | None]:
    """Return the files of the old patch and of the one made anew, as the new one has them."""
    try:
        diffs = parse_diff(data)
    except DiffError as error:
        raise UserError(
            f"{series.root / patch.name}: rule '{patch.header[HEADER]}' made no patch of it ({error}). "
            "Run the rule's test"
        ) from error
    files: dict[str, Blob | None] = {}
    apply_patch(dataclasses.replace(patch, files=diffs), files, tree.read)
    untouched = {path for diff in patch.files for path in diff.paths} - set(files)
    return {**files, **{path: tree.read(path) for path in untouched}}
