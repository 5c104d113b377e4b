# SPDX-License-Identifier: Apache-2.0
"""Align two versions of a file: find the lines that they have in common.

This is patience diff. Unique lines anchor the alignment: first the lines that are unique in both
files, then the lines that are unique between two anchors. The anchors are the longest chain of such
lines in the same order on both sides. The gaps between anchors are aligned by their longest common
blocks. Patience diff keeps functions together, whereas a shortest edit script would match their
closing lines.
"""

from __future__ import annotations

import bisect
import difflib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.importer.engine.marks import Mark

# If a gap between anchors has more pairs of lines than this, it counts as entirely rewritten. This
# can turn a merge into a conflict, but never gives a wrong result.
_GAP_PAIRS = 4_000_000
# A range with more lines than this is first split where both sides have the same unique run of
# lines. The search for such runs starts at every _CUT_EVERY-th line.
_LONG = 1000
_CUT_EVERY = 64
# A range is split only where this many consecutive lines match. The first of these lines, or the
# run as a whole, must be unique on both sides.
_SAME_RUN = 8


# The number of occurrences of each line in the old and in the new version.
Counts = tuple[Counter[Mark], Counter[Mark]]


@dataclass(frozen=True)
class Match:
    """`length` matching lines, at index `old` of the old text and `new` of the new text."""

    old: int
    new: int
    length: int


@dataclass(frozen=True)
class Change:
    """`old[start:stop]` became `new[new_start:new_stop]`. One of the two ranges may be empty."""

    start: int
    stop: int
    new_start: int
    new_stop: int


def align(old: Sequence[Mark], new: Sequence[Mark], *, counts: Counts | None = None) -> list[Match]:
    """Return the lines that the two versions have in common, in order, as maximal runs.

    `counts` contains the number of occurrences of each line per version, if already computed.
    """
    return _joined(_blocks(_Pair(old, new, counts), 0, len(old), 0, len(new)))


def changes(
    old: Sequence[Mark], new: Sequence[Mark], *, counts: Counts | None = None
) -> list[Change]:
    """Return the differences in order, each slid down as far as possible.

    A blank line inserted next to a blank line has several possible positions. Both sides of a merge
    must choose the same one, or one change would count as two.
    """
    return settle(old, new, gaps(align(old, new, counts=counts), len(old), len(new)))


def settle(old: Sequence[Mark], new: Sequence[Mark], raw: Sequence[Change]) -> list[Change]:
    """Trim unchanged lines from each change, then slide insertions and deletions down."""
    out: list[Change] = []
    trimmed = [part for change in raw if (part := _trim(old, new, change))]
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
    """Return the gaps between matches as changes, which `settle` then normalizes."""
    out: list[Change] = []
    position, new_position = 0, 0
    for match in [*matches, Match(old_size, new_size, 0)]:
        if match.old > position or match.new > new_position:
            out.append(Change(position, match.old, new_position, match.new))
        position, new_position = match.old + match.length, match.new + match.length
    return out


@dataclass(frozen=True)
class _Pair:
    """Two versions of a whole file."""

    old: Sequence[Mark]
    new: Sequence[Mark]
    known_counts: Counts | None

    @cached_property
    def counts(self) -> Counts:
        return self.known_counts or (Counter(self.old), Counter(self.new))

    @cached_property
    def where(self) -> dict[Mark, int]:
        """Map each line of the new file to its index; for a repeated line, the last index."""
        return dict(zip(self.new, range(len(self.new)), strict=True))

    def is_rare(self, line: Mark) -> bool:
        """Return whether a line occurs exactly once in each of the two files."""
        old, new = self.counts
        return old[line] == 1 and new[line] == 1


def _blocks(pair: _Pair, start: int, stop: int, new_start: int, new_stop: int) -> list[Match]:
    """Align two ranges: first their common head and tail, then anchors, then the gaps."""
    old, new = pair.old, pair.new
    head = _common_head(old, new, start, new_start, min(stop - start, new_stop - new_start))
    start, new_start = start + head, new_start + head
    tail = _common_tail(old, new, stop, new_stop, min(stop - start, new_stop - new_start))
    stop, new_stop = stop - tail, new_stop - tail
    out = [Match(start - head, new_start - head, head)] if head else []
    cuts = (
        _cuts(pair, start, stop, new_start, new_stop)
        if min(stop - start, new_stop - new_start) > _LONG
        else []
    )
    position, new_position = start, new_start
    for cut, new_cut in cuts:
        out += _blocks(pair, position, cut, new_position, new_cut)
        position, new_position = cut, new_cut
    if cuts:
        out += _blocks(pair, position, stop, new_position, new_stop)
    else:
        out += _inner(pair, start, stop, new_start, new_stop)
    if tail:
        out.append(Match(stop, new_stop, tail))
    return out


def _common_head(
    old: Sequence[Mark], new: Sequence[Mark], start: int, new_start: int, limit: int
) -> int:
    """Return how many consecutive lines match, starting at the two positions."""

    def same(size: int, step: int) -> bool:
        position, new_position = start + size, new_start + size
        return old[position : position + step] == new[new_position : new_position + step]

    return _longest(limit, same)


def _common_tail(
    old: Sequence[Mark], new: Sequence[Mark], stop: int, new_stop: int, limit: int
) -> int:
    """Return how many consecutive lines match just before the two positions."""

    def same(size: int, step: int) -> bool:
        position, new_position = stop - size, new_stop - size
        return old[position - step : position] == new[new_position - step : new_position]

    return _longest(limit, same)


def _longest(limit: int, same: Callable[[int, int], bool]) -> int:
    """Return the length of the longest matching run, up to `limit`.

    `same(size, step)` returns whether the `step` lines after the first `size` lines match.
    Comparing slices is faster than comparing single lines.
    """
    size, step = 0, 16
    while size < limit:
        step = min(step, limit - size)
        if same(size, step):
            size, step = size + step, step * 2
        elif step == 1:
            break
        else:
            step = max(step // 4, 1)
    return size


def _cuts(
    pair: _Pair, start: int, stop: int, new_start: int, new_stop: int
) -> list[tuple[int, int]]:
    """Return the positions at which to split both ranges, as (old, new) pairs.

    The same run of lines starts at both positions, and it occurs only once on each side. Splitting
    long ranges saves time: the search for anchors builds a table of all lines in a range, but most
    of the shorter ranges are identical on both sides and need no anchors.
    """
    places = range(start + _CUT_EVERY, stop - _SAME_RUN, _CUT_EVERY)
    cuts: list[tuple[int, int]] = []
    for first in places:
        for index in range(first, first + _SAME_RUN):
            new_index = pair.where.get(pair.old[index], -1)
            if (
                new_start < new_index < new_stop
                and pair.is_rare(pair.old[index])
                and pair.old[index : index + _SAME_RUN]
                == pair.new[new_index : new_index + _SAME_RUN]
            ):
                cuts.append((index, new_index))
                break
    if len(cuts) * 2 < len(places):
        # Too few lines are unique, but runs of several lines may be.
        runs = {tuple(pair.old[index : index + _SAME_RUN]) for index in places}
        once = _once(runs, pair.old[start:stop], start)
        new_once = _once(runs, pair.new[new_start:new_stop], new_start)
        cuts = sorted((once[run], new_once[run]) for run in once.keys() & new_once.keys())
    return _rising(cuts)


def _once(
    candidates: Collection[tuple[Mark, ...]], lines: Sequence[Mark], first: int
) -> dict[tuple[Mark, ...], int]:
    """Map each candidate that occurs once in `lines` to its index, counted from `first`."""
    runs = zip(*(lines[skip:] for skip in range(_SAME_RUN)), strict=False)
    places = [(run, index) for index, run in enumerate(runs, first) if run in candidates]
    counts = Counter(run for run, _ in places)
    return {run: index for run, index in places if counts[run] == 1 and index > first}


def _inner(pair: _Pair, start: int, stop: int, new_start: int, new_stop: int) -> list[Match]:
    old, new = pair.old, pair.new
    if start == stop or new_start == new_stop:
        return []
    anchors = _anchors(pair, start, stop, new_start, new_stop)
    if not anchors:
        return _common_blocks(old, new, start, stop, new_start, new_stop)
    out: list[Match] = []
    position, new_position = start, new_start
    for anchor, new_anchor in anchors:
        if anchor < position or new_anchor < new_position:
            continue  # the match of the previous anchor contains this anchor
        out += _blocks(pair, position, anchor, new_position, new_anchor)
        length = _common_head(
            old, new, anchor, new_anchor, min(stop - anchor, new_stop - new_anchor)
        )
        out.append(Match(anchor, new_anchor, length))
        position, new_position = anchor + length, new_anchor + length
    return out + _blocks(pair, position, stop, new_position, new_stop)


def _anchors(
    pair: _Pair, start: int, stop: int, new_start: int, new_stop: int
) -> list[tuple[int, int]]:
    """Return the longest chain of lines that are unique in both ranges and in the same order.

    Lines that are unique in both files as a whole, not just in the ranges, take precedence.
    Otherwise, a function body that is repeated elsewhere in the file would outvote the function's
    name.
    """
    old, new = pair.old, pair.new
    once = {line for line, count in Counter(old[start:stop]).items() if count == 1}
    once &= {line for line, count in Counter(new[new_start:new_stop]).items() if count == 1}
    if not once:
        return []
    once = {line for line in once if pair.is_rare(line)} or once
    where = {
        line: index for index, line in enumerate(new[new_start:new_stop], new_start) if line in once
    }
    pairs = [
        (index, where[line]) for index, line in enumerate(old[start:stop], start) if line in once
    ]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of `pairs` in which the second index also increases."""
    positions = [position for _, position in pairs]
    if positions == sorted(positions):
        return pairs
    tops: list[int] = []  # the smallest last position of any chain, by chain length
    top_pair: list[int] = []
    before: list[int] = []
    for index, position in enumerate(positions):
        slot = bisect.bisect_left(tops, position)
        if slot == len(tops):
            tops.append(position)
            top_pair.append(index)
        else:
            tops[slot] = position
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
