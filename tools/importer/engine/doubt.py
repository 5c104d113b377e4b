# SPDX-License-Identifier: Apache-2.0
"""Detect clean merges whose result depends on how the versions are aligned.

The text of a file does not show which of several identical lines was removed. Suppose upstream
deletes one of three identical blocks, and the patch deletes lines of one of them. If both changed
the same block, the patch has landed; if not, it must still be applied. A merge picks one alignment
of the versions. Between lines that are unique in all versions, this module tries all other
alignments and compares the merge results.
"""

from __future__ import annotations

import enum
import itertools
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tools.importer.engine.align import Change, settle
from tools.importer.engine.alignments import Alignments, alignments
from tools.importer.engine.marks import Mark, mark_of
from tools.importer.engine.merge import Merge
from tools.importer.engine.slide import slid
from tools.importer.engine.stretches import Stretch, stretches
from tools.importer.engine.text import Text

# A range with more possible alignments than this counts as ambiguous.
_MAX_ALIGNMENTS = 64
# A line counts as moved if it swapped places with a line within this distance.
_NEAR = 30
# A window (the lines around a change that are examined) ends this many lines from the change,
# unless a unique line ends it earlier.
_FAR = 100

Marks = tuple[Mark, ...]


# If both sides insert lines at the same place under one alignment of upstream's changes, that
# alignment does not make the merge doubtful, unless it moves a change over more than this number of
# different lines. Then upstream has copied a block, and the patch may belong to either copy.
_MAX_SLID = 2


class _Clash(enum.Enum):
    """The reason why two changes cannot be combined."""

    OVERLAP = enum.auto()  # both change the same lines
    ORDER = enum.auto()  # both insert lines at the same place, so only their order is unknown


@dataclass(frozen=True)
class _Window:
    """A range of lines in all three versions. `start` is the index of its first line in the base.

    `blank` contains the hashes of blank lines.
    """

    start: int
    base: Marks
    ours: Marks
    theirs: Marks
    blank: frozenset[Mark]


def doubtful_line(base: Text, ours: Text, theirs: Text, merge: Merge) -> int | None:
    """Return the index of a base line near which another alignment changes the merge result.

    Return None if all alignments agree with `merge`, which must have no conflicts.
    """
    for line in _removed(merge):
        mark = base.marks[line]
        if not (theirs.counts[mark] and ours.counts[mark]) and _stays(mark, ours, theirs, merge):
            return line
    for window, result in _windows(base, ours, theirs, merge):
        offset = _doubt(window, result)
        if offset is not None:
            return window.start + offset
    return None


def _removed(merge: Merge) -> list[int]:
    """Return the base lines that both sides removed or moved."""
    patched = [change for stretch in merge.stretches for change in stretch.theirs]
    return sorted(_lines(patched) & _lines(merge.upstream))


def _stays(mark: Mark, ours: Text, theirs: Text, merge: Merge) -> bool:
    """Return whether the merge result still contains a line with this hash."""
    count = ours.counts[mark]
    for stretch in merge.stretches:
        if not stretch.same:
            count -= ours.marks[stretch.ours_start : stretch.ours_stop].count(mark)
            count += theirs.marks[stretch.begin : stretch.end].count(mark)
    return count > 0


def _windows(base: Text, ours: Text, theirs: Text, merge: Merge) -> Iterator[tuple[_Window, Marks]]:
    """Yield each window in which both sides changed lines, with the merge result for it."""
    patched = [change for stretch in merge.stretches for change in stretch.theirs]
    upstream, patch = _Kept(merge.upstream, ours), _Kept(patched, theirs)
    size, end = len(base.marks), -1
    blank = frozenset(mark_of(line) for line in (b"\n", b"\r\n"))

    def ends(index: int, far: int) -> bool:
        """Return whether the window ends at line `index`, which is `far` lines from the change."""
        mark = base.marks[index]
        if not (upstream.keeps(index) and patch.keeps(index)):
            return False
        unique = base.counts[mark] == ours.counts[mark] == theirs.counts[mark] == 1
        return far >= _FAR or (
            unique and not (upstream.passes(base, index) or patch.passes(base, index))
        )

    for change in patched:
        if change.start < end:
            continue
        start, stop = change.start, change.stop
        while start and not ends(start - 1, change.start - start):
            start -= 1
        while stop < size and not ends(stop, stop - change.stop):
            stop += 1
        end = stop
        low, high = upstream.span(start, stop, size)
        begin, behind = patch.span(start, stop, size)
        window = _Window(
            start,
            base.marks[start:stop],
            ours.marks[low:high],
            theirs.marks[begin:behind],
            blank,
        )
        if window.ours != window.base:
            yield window, _result(ours, theirs, merge.stretches, low, high)


class _Kept:
    """The base lines that one version kept, with their positions in it."""

    def __init__(self, changes: Sequence[Change], text: Text) -> None:
        self._changes = changes
        self._stops = [change.stop for change in changes]
        self._text = text

    def keeps(self, line: int) -> bool:
        index = bisect_right(self._stops, line)
        return index == len(self._changes) or self._changes[index].start > line

    def passes(self, base: Text, line: int) -> bool:
        """Return whether a kept line and a nearby one have swapped places, so one has moved."""
        position = self._place(line)
        marks = self._text.marks
        above = set(base.marks[max(line - _NEAR, 0) : line])
        below = set(base.marks[line + 1 : line + 1 + _NEAR])
        passed = above.intersection(marks[position + 1 : position + 1 + _NEAR])
        passed |= below.intersection(marks[max(position - _NEAR, 0) : position])
        return any(min(base.counts[mark], self._text.counts[mark]) == 1 for mark in passed)

    def span(self, start: int, stop: int, size: int) -> tuple[int, int]:
        """Return the range of this version that corresponds to base[start:stop]."""
        return (
            self._place(start - 1) + 1 if start else 0,
            self._place(stop) if stop < size else len(self._text.marks),
        )

    def _place(self, line: int) -> int:
        index = bisect_right(self._stops, line)
        last = self._changes[index - 1] if index else Change(0, 0, 0, 0)
        return line + last.new_stop - last.stop


def _result(ours: Text, theirs: Text, touched: Sequence[Stretch], low: int, high: int) -> Marks:
    """Return the result of the merge for ours[low:high]."""
    out: list[Mark] = []
    position = low
    for stretch in touched:
        if stretch.same or stretch.ours_start < low or stretch.ours_stop > high:
            continue
        out += ours.marks[position : stretch.ours_start]
        out += theirs.marks[stretch.begin : stretch.end]
        position = stretch.ours_stop
    return (*out, *ours.marks[position:high])


def _doubt(window: _Window, result: Marks) -> int | None:
    """Return the index of the window's line at which alignments disagree; None if they agree.

    The alignments agree only if merging with each of them gives `result`.
    """
    upstream = alignments(window.base, window.ours)
    patch = alignments(window.base, window.theirs)
    if upstream is None or patch is None:
        return 0 if result == window.ours else None
    out: list[Mark] = []
    for part in _parts(window, upstream.kept, patch.kept):
        agreed = _agreed(part)
        if agreed is None:
            return part.start
        if isinstance(agreed, _Clash):
            return 0 if _agreed(window, result) is None else None
        out += agreed
    return None if tuple(out) == result else 0


def _parts(window: _Window, ours: Mapping[int, int], theirs: Mapping[int, int]) -> list[_Window]:
    """Split a window at each base line that has a fixed counterpart in both versions.

    `ours` and `theirs` map the base lines that have the same counterpart in all alignments to the
    indices of these counterparts.
    """
    out: list[_Window] = []
    start = mine = other = 0
    ends = (len(window.base), len(window.ours), len(window.theirs))
    cuts = [(line, ours[line], theirs[line]) for line in sorted(ours.keys() & theirs.keys())]
    for line, our_line, their_line in [*cuts, ends]:
        out.append(
            _Window(
                start,
                window.base[start:line],
                window.ours[mine:our_line],
                window.theirs[other:their_line],
                window.blank,
            )
        )
        if line < len(window.base):
            kept = window.base[line : line + 1]
            out.append(_Window(line, kept, kept, kept, window.blank))
        start, mine, other = line + 1, our_line + 1, their_line + 1
    return out


def _agreed(part: _Window, usual: Marks | None = None) -> Marks | _Clash | None:
    """Return the merge result of `part` if all alignments give the same result, else None.

    `part` is a range of lines in all three versions. Return None also if there are too many
    alignments. `usual` is the result of the actual merge, if known; otherwise, the first alignments
    are merged. If the changes clash in that merge, return the clash.
    """
    if part.ours == part.base:
        return part.theirs
    if part.theirs == part.base:
        return part.ours
    if part.ours == part.theirs and not {*part.ours} <= {*part.base}:
        return part.ours  # both sides wrote the same new line here, so they made the same change
    upstream = _some(alignments(part.base, part.ours))
    patch = _some(alignments(part.base, part.theirs))
    if not upstream or not patch:
        return None
    if usual is None:
        merged = _merged(
            part,
            settle(part.base, part.ours, upstream[0]),
            settle(part.base, part.theirs, patch[0]),
        )
        if isinstance(merged, _Clash):
            return merged
        usual = merged
    classes: dict[tuple[Change, ...], list[list[Change]]] = {}
    for theirs in patch:
        classes.setdefault(tuple(slid(part.base, part.theirs, theirs)), []).append(theirs)
    for ours in upstream:
        for settled, alike in classes.items():
            if not _agrees(part, usual, ours, settled, alike):
                return None
    return usual


def _agrees(
    part: _Window,
    usual: Marks,
    ours: Sequence[Change],
    settled: Sequence[Change],
    alike: Sequence[Sequence[Change]],
) -> bool:
    """Return whether merging `ours` with each item of `alike` gives the same result, `usual`.

    `ours` is the list of upstream's changes under one alignment. Each item of `alike` is the list
    of the patch's changes under one alignment. After sliding insertions and deletions down, each of
    these lists equals `settled`.
    """
    if usual == part.ours:
        # If both sides have the same text, they made the same change, even if each may have kept a
        # different one of several identical lines. If upstream also made other changes, its text
        # does not show whether both sides removed the same lines, so compare all alignments.
        agreeing = [theirs for theirs in alike if _merged(part, ours, theirs) == usual]
        if not agreeing or part.ours == part.theirs:
            return bool(agreeing)
        natural = slid(part.base, part.ours, ours)
        removed, others = (
            {(change.start, change.stop) for change in changes} for changes in (settled, natural)
        )
        if _only_removes([*natural, *settled]) and not removed <= others:
            # The sides removed different lines that overlap, so a line that the patch removed may
            # be one that upstream kept, even a blank one.
            return len(agreeing) == len(alike)
        return all(
            any(_lines_between(part, theirs, one) <= part.blank for one in agreeing)
            for theirs in alike
            if theirs not in agreeing
        )
    natural = slid(part.base, part.ours, ours)
    result = _merged(part, ours, settled)
    if result is _Clash.ORDER and len(_slid_over(part, ours, natural) - part.blank) > _MAX_SLID:
        return False
    if result not in (usual, _Clash.ORDER) and (
        result is not _Clash.OVERLAP
        or ours == natural
        or (_only_removes([*ours, *settled]) and not _slid_over(part, ours, natural) <= part.blank)
    ):
        return False
    for theirs in alike:
        if _slid_over(part, theirs, settled) <= part.blank:
            continue
        if _merged(part, ours, theirs) not in (usual, _Clash.ORDER):
            return False
    return True


def _only_removes(changes: Sequence[Change]) -> bool:
    """Return whether all changes only remove lines; such changes can overlap without conflict."""
    return all(change.new_start == change.new_stop for change in changes)


def _lines_between(part: _Window, one: Sequence[Change], other: Sequence[Change]) -> set[Mark]:
    """Return the base lines that are removed under one of two alignments, but not the other."""
    return {part.base[line] for line in _lines(one) ^ _lines(other)}


def _slid_over(part: _Window, one: Sequence[Change], other: Sequence[Change]) -> set[Mark]:
    """Return the base lines by which two alignments differ.

    These are the lines that only one alignment removes, and the lines between a change's position
    under one alignment and under the other.
    """
    return _lines_between(part, one, other) | {
        part.base[line]
        for mine, its in itertools.zip_longest(one, other)
        if mine and its
        for low, high in ((mine.start, its.start), (mine.stop, its.stop))
        for line in range(min(low, high), max(low, high))
    }


def _some(side: Alignments | None) -> list[list[Change]]:
    """Return a side's changes under each possible alignment; [] if there are none or too many."""
    some = list(itertools.islice(side.changes(), _MAX_ALIGNMENTS + 1)) if side else []
    return some if len(some) <= _MAX_ALIGNMENTS else []


def _merged(part: _Window, ours: Sequence[Change], theirs: Sequence[Change]) -> Marks | _Clash:
    """Merge upstream's changes with the patch's, given one alignment of each."""
    out: list[Mark] = []
    position = 0
    for stretch in stretches(part.base, part.ours, part.theirs, ours, theirs):
        out += part.ours[position : stretch.ours_start]
        position = stretch.ours_stop
        if stretch.same and _lines(stretch.theirs) <= _lines(stretch.ours):
            out += part.ours[stretch.ours_start : position]
        elif not stretch.ours:
            out += part.theirs[stretch.begin : stretch.end]
        else:
            clash = _clash(stretch)
            if clash is not None:
                return clash
            out += _both(part, stretch)
    return (*out, *part.ours[position:])


def _lines(changes: Sequence[Change]) -> set[int]:
    return {line for change in changes for line in range(change.start, change.stop)}


def _clash(stretch: Stretch) -> _Clash | None:
    """Return why the changes to a range cannot be combined; None if they can."""
    order = False
    for mine, other in itertools.product(stretch.ours, stretch.theirs):
        if max(mine.start, other.start) < min(mine.stop, other.stop):
            return _Clash.OVERLAP
        if mine.start < other.start == other.stop < mine.stop:
            return _Clash.OVERLAP
        if other.start < mine.start == mine.stop < other.stop:
            return _Clash.OVERLAP
        order |= mine.start == mine.stop == other.start == other.stop
    return _Clash.ORDER if order else None


def _both(part: _Window, stretch: Stretch) -> list[Mark]:
    """Return the lines of a range with the changes of both sides applied.

    The changes must not overlap.
    """
    out: list[Mark] = []
    position = stretch.start
    sides = [(change, part.ours) for change in stretch.ours]
    sides += [(change, part.theirs) for change in stretch.theirs]
    for change, text in sorted(sides, key=lambda side: (side[0].start, side[0].stop)):
        out += part.base[position : change.start]
        out += text[change.new_start : change.new_stop]
        position = change.stop
    return [*out, *part.base[position : stretch.stop]]
