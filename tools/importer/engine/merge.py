# SPDX-License-Identifier: Apache-2.0
"""Three-way merge of one text: what upstream changed, what the patch changed, against their base.

The base may be known by the marks of its lines only. Changes of the two sides that overlap or touch
are a conflict unless they are the same change, or upstream's holds all of the patch's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.importer.engine.align import Change, Match, align, changes, gaps, settle
from tools.importer.engine.marks import Mark
from tools.importer.engine.text import Text, known_lines


@dataclass(frozen=True)
class Labels:
    """What stands beside the conflict markers."""

    base: str = "base"
    ours: str = "ours"
    theirs: str = "theirs"


@dataclass(frozen=True)
class Region:
    """A stretch that at least one side changed: base[start:stop], ours[ours_start:ours_stop].

    `theirs` is the patch's version of it, as lines.
    """

    start: int
    stop: int
    ours_start: int
    ours_stop: int
    theirs: tuple[bytes, ...]
    conflict: bool


@dataclass(frozen=True)
class Merge:
    """`lines` hold conflict markers where `conflicts` has a region.

    `edits` are the places where the result differs from ours, in the positions of both; `upstream` is
    what ours changed, `matches` what it has from the base.
    """

    lines: tuple[bytes, ...]
    conflicts: tuple[Region, ...]
    edits: tuple[Change, ...]
    upstream: tuple[Change, ...] = ()
    matches: tuple[Match, ...] = ()


def merge_texts(
    base: Text,
    ours: Text,
    theirs: Text,
    *,
    words: Mapping[Mark, bytes] | None = None,
    labels: Labels | None = None,
) -> Merge:
    """Merge; `ours` has lines, the others' lines may be in `words`, by their marks.

    A line that only the base has is never written, except between the markers of a conflict.
    """
    assert ours.lines is not None
    words = words or {}
    labels = labels or Labels()
    matches = align(base.marks, ours.marks)
    our_changes = settle(base.marks, ours.marks, gaps(matches, len(base.marks), len(ours.marks)))
    their_changes = changes(base.marks, theirs.marks)
    out: list[bytes] = []
    conflicts: list[Region] = []
    edits: list[Change] = []
    at = 0  # in ours
    for region, unchanged in _regions(
        base, ours, theirs, our_changes, their_changes, words, labels
    ):
        if unchanged:
            continue
        out += ours.lines[at : region.ours_start]
        at = region.ours_stop
        begin = len(out)
        if region.conflict:
            conflicts.append(region)
            out += _marked(region, base, ours, words, labels)
        else:
            out += region.theirs
        edits.append(Change(region.ours_start, region.ours_stop, begin, len(out)))
    out += ours.lines[at:]
    return Merge(tuple(out), tuple(conflicts), tuple(edits), tuple(our_changes), tuple(matches))


def _regions(
    base: Text,
    ours: Text,
    theirs: Text,
    our_changes: Sequence[Change],
    their_changes: Sequence[Change],
    words: Mapping[Mark, bytes],
    labels: Labels,
) -> list[tuple[Region, bool]]:
    """Each region that the patch changes, and whether ours stays as it is there."""
    out: list[tuple[Region, bool]] = []
    shift = 0  # of ours against the base, behind every change of ours that was passed
    mine = list(our_changes)
    for group in _groups(our_changes, their_changes):
        while mine and mine[0].stop < group.start and mine[0] not in group.ours:
            shift = mine[0].new_stop - mine[0].stop
            mine.pop(0)
        if not group.theirs:
            continue
        ours_start = group.start + shift
        behind = group.ours[-1].new_stop - group.ours[-1].stop if group.ours else shift
        ours_stop = group.stop + behind
        their_marks, their_lines = _side(
            base, theirs, group.start, group.stop, group.theirs, words, labels
        )
        our_marks = ours.marks[ours_start:ours_stop]
        base_marks = base.marks[group.start : group.stop]
        same = our_marks == their_marks or (
            group.ours != ()
            and not _doubtful(base.marks, our_marks, their_marks, group.start, group.stop)
            and _holds(base_marks, our_marks, their_marks)
        )
        region = Region(
            group.start,
            group.stop,
            ours_start,
            ours_stop,
            tuple(their_lines),
            bool(group.ours) and not same,
        )
        out.append((region, same))
    return out


@dataclass(frozen=True)
class _Group:
    start: int
    stop: int
    ours: tuple[Change, ...]
    theirs: tuple[Change, ...]


def _groups(ours: Sequence[Change], theirs: Sequence[Change]) -> list[_Group]:
    """Changes of both sides, those that overlap or touch together, in order."""
    tagged = sorted(
        [(change.start, change.stop, 0, change) for change in ours]
        + [(change.start, change.stop, 1, change) for change in theirs],
        key=lambda item: item[:3],
    )
    out: list[_Group] = []
    for start, stop, side, change in tagged:
        last = out[-1] if out else None
        touches = (
            last is not None and start <= last.stop and (last.theirs if side == 0 else last.ours)
        )
        if last is not None and (touches or start < last.stop):
            mine = (*last.ours, change) if side == 0 else last.ours
            other = (*last.theirs, change) if side == 1 else last.theirs
            out[-1] = _Group(last.start, max(last.stop, stop), mine, other)
        else:
            out.append(
                _Group(start, stop, (change,) if side == 0 else (), (change,) if side == 1 else ())
            )
    return out


def _side(
    base: Text,
    theirs: Text,
    start: int,
    stop: int,
    group: Sequence[Change],
    words: Mapping[Mark, bytes],
    labels: Labels,
) -> tuple[tuple[Mark, ...], list[bytes]]:
    """The patch's version of base[start:stop]."""
    begin = group[0].new_start - (group[0].start - start)
    end = group[-1].new_stop + (stop - group[-1].stop)
    return theirs.marks[begin:end], known_lines(theirs, begin, end, words, labels.base)


def _holds(base: Sequence[Mark], ours: Sequence[Mark], theirs: Sequence[Mark]) -> bool:
    """Whether upstream's change has all of the patch's and more beside it.

    True where, behind what both begin with and before what both end with, the patch is the base
    again: so the patch's own change is in that common part, which must not be empty: a line that the
    patch takes out and upstream rewrites is in neither, and yet the patch did not land. And none of
    the lines that the patch takes away may be in upstream's version still. Where upstream took the
    whole stretch out, a patch that only takes lines out is in that.
    """
    if not ours:
        return not Counter(theirs) - Counter(base)
    head = tail = 0
    shortest = min(len(ours), len(theirs))
    while head < shortest and ours[head] == theirs[head]:
        head += 1
    while tail < shortest - head and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    if not head + tail or not _untouched(base, theirs[head : len(theirs) - tail], head, tail):
        return False
    removed = Counter(base) - Counter(theirs)
    kept = Counter(ours)
    return not any(kept[line] for line in removed)


def _doubtful(
    base: Sequence[Mark], ours: Sequence[Mark], theirs: Sequence[Mark], start: int, stop: int
) -> bool:
    """Whether a line beside base[start:stop] is also upstream's line at that end of its version.

    Then which of the two is the base's is a guess, and so is what upstream added to the patch's. The
    same holds where it is a line that upstream took out and the patch did not: the patch may have
    taken out the other one.
    """
    taken = Counter(theirs) - Counter(ours)
    above, below = base[max(start - 1, 0) : start], base[stop : stop + 1]
    return any(line in ours[:1] or line in taken for line in above) or any(
        line in ours[-1:] or line in taken for line in below
    )


def _untouched(base: Sequence[Mark], inner: Sequence[Mark], head: int, tail: int) -> bool:
    """Whether the patch's remainder is a stretch of the base, at the side where nothing precedes it."""
    size = len(inner)
    if not size:
        return True
    starts = range(len(base) - size + 1)
    if not head:
        starts = starts[:1]
    elif not tail:
        starts = starts[-1:]
    return any(tuple(base[at : at + size]) == tuple(inner) for at in starts)


def _marked(
    region: Region, base: Text, ours: Text, words: Mapping[Mark, bytes], labels: Labels
) -> list[bytes]:
    assert ours.lines is not None
    old = known_lines(base, region.start, region.stop, words, labels.base)
    return [
        b"<<<<<<< %s\n" % labels.ours.encode(),
        *_ended(ours.lines[region.ours_start : region.ours_stop]),
        b"||||||| %s\n" % labels.base.encode(),
        *_ended(old),
        b"=======\n",
        *_ended(region.theirs),
        b">>>>>>> %s\n" % labels.theirs.encode(),
    ]


def _ended(lines: Sequence[bytes]) -> list[bytes]:
    """A marker needs a line of its own, so a last line without a newline gets one."""
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]
