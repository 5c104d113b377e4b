# SPDX-License-Identifier: Apache-2.0
"""Which lines of two versions of a file are the same lines.

Lines that are unique on both sides anchor the alignment (the longest run of them that keeps its
order): first those that are unique in both files, then, between them, those that are unique there; at
last the longest common blocks are taken. This is patience diff: it keeps functions
together where a shortest edit script would pair their closing lines.
"""

from __future__ import annotations

import bisect
import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.importer.engine.marks import Mark

# Between anchors: a gap with more pairs of lines than this counts as wholly rewritten, which can only
# turn a merge into a conflict, never into a wrong result.
_GAP_PAIRS = 4_000_000


@dataclass(frozen=True)
class Match:
    """`length` lines from `old` on are the lines from `new` on; positions count from 0."""

    old: int
    new: int
    length: int


@dataclass(frozen=True)
class Change:
    """`old[start:stop]` became `new[new_start:new_stop]`. One of the two may be empty."""

    start: int
    stop: int
    new_start: int
    new_stop: int


def align(old: Sequence[Mark], new: Sequence[Mark]) -> list[Match]:
    """Return what the two have in common, in order, as maximal runs."""
    return _joined(_blocks(_Pair(old, new), 0, len(old), 0, len(new)))


def changes(old: Sequence[Mark], new: Sequence[Mark]) -> list[Change]:
    """Return the differences in order, each as far down as it can slide.

    An inserted blank line beside a blank line has several places. Both sides of a merge must choose
    the same one, or the same change would count as two.
    """
    return settle(old, new, gaps(align(old, new), len(old), len(new)))


def settle(old: Sequence[Mark], new: Sequence[Mark], found: Sequence[Change]) -> list[Change]:
    """Trim the lines that a change leaves alone, then slide insertions and deletions down."""
    out: list[Change] = []
    trimmed = [part for change in found if (part := _trim(old, new, change))]
    for index in range(len(trimmed) - 1, -1, -1):
        change = trimmed[index]
        limit = out[-1].start if out else len(old)
        change = _slide(old, new, change, limit)
        if out and change.stop == out[-1].start and change.new_stop == out[-1].new_start:
            below = out.pop()
            change = Change(change.start, below.stop, change.new_start, below.new_stop)
        out.append(change)
    out.reverse()
    return out


def _trim(old: Sequence[Mark], new: Sequence[Mark], change: Change) -> Change | None:
    start, stop, new_start, new_stop = (
        change.start,
        change.stop,
        change.new_start,
        change.new_stop,
    )
    while start < stop and new_start < new_stop and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < stop and new_start < new_stop and old[stop - 1] == new[new_stop - 1]:
        stop, new_stop = stop - 1, new_stop - 1
    if start == stop and new_start == new_stop:
        return None
    return Change(start, stop, new_start, new_stop)


def _slide(old: Sequence[Mark], new: Sequence[Mark], change: Change, limit: int) -> Change:
    start, stop, new_start, new_stop = (
        change.start,
        change.stop,
        change.new_start,
        change.new_stop,
    )
    if start == stop:
        while stop < limit and new_stop < len(new) and new[new_start] == old[stop]:
            start, stop = start + 1, stop + 1
            new_start, new_stop = new_start + 1, new_stop + 1
    elif new_start == new_stop:
        while stop < limit and old[start] == old[stop]:
            start, stop = start + 1, stop + 1
            new_start, new_stop = new_start + 1, new_stop + 1
    return Change(start, stop, new_start, new_stop)


def gaps(matches: Sequence[Match], old_size: int, new_size: int) -> list[Change]:
    """Return what lies between matches, as it is: see `settle`."""
    out: list[Change] = []
    at, new_at = 0, 0
    for match in [*matches, Match(old_size, new_size, 0)]:
        if match.old > at or match.new > new_at:
            out.append(Change(at, match.old, new_at, match.new))
        at, new_at = match.old + match.length, match.new + match.length
    return out


@dataclass(frozen=True)
class _Pair:
    """Two whole files."""

    old: Sequence[Mark]
    new: Sequence[Mark]

    @cached_property
    def rare(self) -> frozenset[Mark]:
        """Lines that stand once in each of the two."""
        counts, new_counts = Counter(self.old), Counter(self.new)
        return frozenset(
            line for line, count in counts.items() if count == 1 and new_counts.get(line) == 1
        )


def _blocks(pair: _Pair, start: int, stop: int, new_start: int, new_stop: int) -> list[Match]:
    """Align two ranges: common ends first, then anchors, then what lies between them."""
    old, new = pair.old, pair.new
    head = tail = 0
    while (
        start + head < stop
        and new_start + head < new_stop
        and old[start + head] == new[new_start + head]
    ):
        head += 1
    while (
        stop - tail > start + head
        and new_stop - tail > new_start + head
        and old[stop - tail - 1] == new[new_stop - tail - 1]
    ):
        tail += 1
    out = [Match(start, new_start, head)] if head else []
    out += _inner(pair, start + head, stop - tail, new_start + head, new_stop - tail)
    if tail:
        out.append(Match(stop - tail, new_stop - tail, tail))
    return out


def _inner(pair: _Pair, start: int, stop: int, new_start: int, new_stop: int) -> list[Match]:
    old, new = pair.old, pair.new
    if start == stop or new_start == new_stop:
        return []
    anchors = _anchors(pair, start, stop, new_start, new_stop)
    if not anchors:
        return _common_blocks(old, new, start, stop, new_start, new_stop)
    out: list[Match] = []
    at, new_at = start, new_start
    for anchor, new_anchor in anchors:
        if anchor < at or new_anchor < new_at:
            continue  # inside what the anchor before it already took
        out += _blocks(pair, at, anchor, new_at, new_anchor)
        length = 1
        while (
            anchor + length < stop
            and new_anchor + length < new_stop
            and old[anchor + length] == new[new_anchor + length]
        ):
            length += 1
        out.append(Match(anchor, new_anchor, length))
        at, new_at = anchor + length, new_anchor + length
    return out + _blocks(pair, at, stop, new_at, new_stop)


def _anchors(
    pair: _Pair, start: int, stop: int, new_start: int, new_stop: int
) -> list[tuple[int, int]]:
    """Lines unique in both ranges, thinned to the longest chain that rises on both sides.

    Those that are unique in the files go first: a body that many functions share is unique as well
    in a range that holds one of them, and would outvote the name above it.
    """
    old, new = pair.old, pair.new
    once = {line for line, count in Counter(old[start:stop]).items() if count == 1}
    once &= {line for line, count in Counter(new[new_start:new_stop]).items() if count == 1}
    if not once:
        return []
    once = once & pair.rare or once
    where = {line: at for at, line in enumerate(new[new_start:new_stop], new_start) if line in once}
    pairs = [(at, where[line]) for at, line in enumerate(old[start:stop], start) if line in once]
    tops: list[int] = []  # the lowest end of a chain of each length
    top_pair: list[int] = []
    before: list[int] = []
    for index, (_, at) in enumerate(pairs):
        slot = bisect.bisect_left(tops, at)
        if slot == len(tops):
            tops.append(at)
            top_pair.append(index)
        else:
            tops[slot] = at
            top_pair[slot] = index
        before.append(top_pair[slot - 1] if slot else -1)
    chain: list[tuple[int, int]] = []
    index = top_pair[-1]
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    chain.reverse()
    return chain


def _common_blocks(
    old: Sequence[Mark], new: Sequence[Mark], start: int, stop: int, new_start: int, new_stop: int
) -> list[Match]:
    if (stop - start) * (new_stop - new_start) > _GAP_PAIRS:
        return []
    matcher = difflib.SequenceMatcher(
        None, old[start:stop], new[new_start:new_stop], autojunk=False
    )
    return [
        Match(start + block.a, new_start + block.b, block.size)
        for block in matcher.get_matching_blocks()
        if block.size
    ]


def _joined(matches: Sequence[Match]) -> list[Match]:
    out: list[Match] = []
    for match in matches:
        last = out[-1] if out else None
        if last and (last.old + last.length, last.new + last.length) == (match.old, match.new):
            out[-1] = Match(last.old, last.new, last.length + match.length)
        else:
            out.append(match)
    return out
