# SPDX-License-Identifier: Apache-2.0
"""Detect renames by the similarity of removed and added files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tools.importer.snapshot import SYMLINK, Blob

# The minimum similarity for a rename, the same as in git.
_SIMILAR = 0.5


def find_renames(removed: Mapping[str, Blob], added: Mapping[str, Blob]) -> dict[str, str]:
    """Return renames as a map from old to new paths, preferring the most similar files.

    Paired files must share at least half of their content, and each file is in at most one pair.
    Among equally similar files, one with an unchanged name wins, then the first in path order.
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
    """Return the fraction of the larger file's bytes that are in common lines.

    Return 2 for identical files, so that they precede files with the same lines in another order.
    """
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
