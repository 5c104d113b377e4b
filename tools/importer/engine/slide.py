# SPDX-License-Identifier: Apache-2.0
"""Slide insertions and deletions over identical adjacent lines."""

from __future__ import annotations

from collections.abc import Sequence

from tools.importer.engine.align import Change
from tools.importer.engine.marks import Mark


def slid(old: Sequence[Mark], new: Sequence[Mark], changes: Sequence[Change]) -> list[Change]:
    """Slide each change down, unless it could then affect another copy of an identical block.

    Removing a function with the blank line above or with the one below is the same change. Removing
    the first or the second of two identical blocks is not.
    """
    out: list[Change] = []
    for index in range(len(changes) - 1, -1, -1):
        change = changes[index]
        above = changes[index - 1] if index else Change(0, 0, 0, 0)
        below = out[-1] if out else Change(len(old), len(old), len(new), len(new))
        change = _slid_down(old, new, change, above, below)
        if out and (change.stop, change.new_stop) == (below.start, below.new_start):
            out.pop()
            change = Change(change.start, below.stop, change.new_start, below.new_stop)
        out.append(change)
    out.reverse()
    return out


def _slid_down(
    old: Sequence[Mark], new: Sequence[Mark], change: Change, above: Change, below: Change
) -> Change:
    if change.start == change.stop:
        text, first, last = new, change.new_start, change.new_stop
        low, high = above.new_stop, below.new_start
    elif change.new_start == change.new_stop:
        text, first, last = old, change.start, change.stop
        low, high = above.stop, below.start
    else:
        return change
    up = down = 0
    while first - up > low and text[first - up - 1] == text[last - up - 1]:
        up += 1
    while last + down < high and text[first + down] == text[last + down]:
        down += 1
    if up + down >= _root(text[first:last]):
        return change
    return Change(
        change.start + down, change.stop + down, change.new_start + down, change.new_stop + down
    )


def _root(lines: Sequence[Mark]) -> int:
    """Return the length of the shortest block whose repetition produces `lines`."""
    size = len(lines)
    return next(
        root
        for root in range(1, size + 1)
        if size % root == 0 and list(lines[:root]) * (size // root) == list(lines)
    )
