# SPDX-License-Identifier: Apache-2.0
"""Detect renames: removed and added files with similar content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tools.importer.snapshot import SYMLINK, Blob

# git uses the same threshold.
_SIMILAR = 0.5


def find_renames(removed: Mapping[str, Blob], added: Mapping[str, Blob]) -> dict[str, str]:
    """Map old paths to new paths: equal files first, then files that share at least half.

    Each file is used once. If scores are equal, an unchanged file name wins, then path order.
    """
    renames: dict[str, str] = {}
    pairs = [
        (score, old.rpartition("/")[2] == new.rpartition("/")[2], old, new)
        for old, before in removed.items()
        for new, after in added.items()
        if (score := _likeness(before, after)) >= _SIMILAR
    ]
    taken: set[str] = set()
    for _, _, old, new in sorted(pairs, key=lambda pair: (-pair[0], not pair[1], *pair[2:])):
        if old not in renames and new not in taken:
            renames[old] = new
            taken.add(new)
    return renames


def _likeness(before: Blob, after: Blob) -> float:
    """Return the fraction of the larger file's bytes in shared lines; 2 for identical files."""
    if (before.mode == SYMLINK) != (after.mode == SYMLINK):
        return 0.0
    if before.data == after.data:
        return 2.0 if before.data else 0.0
    if before.mode == SYMLINK:
        return 0.0
    larger = max(len(before.data), len(after.data))
    if min(len(before.data), len(after.data)) < _SIMILAR * larger:
        return 0.0
    common = Counter(before.data.splitlines(True)) & Counter(after.data.splitlines(True))
    return sum(len(line) * count for line, count in common.items()) / larger
