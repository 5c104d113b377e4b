# SPDX-License-Identifier: Apache-2.0
"""The ranges (stretches) of the base that a patch changes, with both sides' versions of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tools.importer.engine.align import Change
from tools.importer.engine.marks import Mark


@dataclass(frozen=True)
class Stretch:
    """A range of the base that the patch changes, with its upstream and patched versions.

    The versions are base[start:stop], ours[ours_start:ours_stop] (upstream) and theirs[begin:end]
    (patched). The fields `ours` and `theirs` are the changes that each side made in this range. If
    `same` is true, upstream's version contains all of the patch's changes, so it is kept.
    """

    start: int
    stop: int
    ours_start: int
    ours_stop: int
    begin: int
    end: int
    ours: tuple[Change, ...]
    theirs: tuple[Change, ...]
    same: bool

    @property
    def conflict(self) -> bool:
        return bool(self.ours) and not self.same


def stretches(
    base: Sequence[Mark],
    ours: Sequence[Mark],
    theirs: Sequence[Mark],
    our_changes: Sequence[Change],
    their_changes: Sequence[Change],
) -> list[Stretch]:
    """Return the ranges that the patch changes, in order. Adjacent changes share a range."""
    out: list[Stretch] = []
    shift = 0  # line offset of `ours` from the base before this group
    passed = 0
    for group in _groups(our_changes, their_changes):
        while (
            passed < len(our_changes)
            and our_changes[passed].stop < group.start
            and our_changes[passed] not in group.ours
        ):
            shift = our_changes[passed].new_stop - our_changes[passed].stop
            passed += 1
        if not group.theirs:
            continue
        behind = group.ours[-1].new_stop - group.ours[-1].stop if group.ours else shift
        ours_start, ours_stop = group.start + shift, group.stop + behind
        begin = group.theirs[0].new_start - (group.theirs[0].start - group.start)
        end = group.theirs[-1].new_stop + (group.stop - group.theirs[-1].stop)
        mine, other = ours[ours_start:ours_stop], theirs[begin:end]
        same = mine == other or (
            group.ours != ()
            and not _doubtful(base, mine, other, group.start, group.stop)
            and _holds(base[group.start : group.stop], mine, other, group.theirs)
        )
        out.append(
            Stretch(
                group.start,
                group.stop,
                ours_start,
                ours_stop,
                begin,
                end,
                group.ours,
                group.theirs,
                same,
            )
        )
    return out


@dataclass(frozen=True)
class _Group:
    start: int
    stop: int
    ours: tuple[Change, ...]
    theirs: tuple[Change, ...]


def _groups(ours: Sequence[Change], theirs: Sequence[Change]) -> list[_Group]:
    """Return the changes of both sides in order, with overlapping or adjacent ones grouped."""
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


def _holds(
    base: Sequence[Mark],
    ours: Sequence[Mark],
    theirs: Sequence[Mark],
    changes: Sequence[Change],
) -> bool:
    """Return whether upstream's change is a superset of the patch's.

    The lines that both versions have in common, at the start and at the end of the range, must
    include all lines that the patch adds: the rest of the patch's version must come from the base.
    There must be a common line: if upstream rewrites a line that the patch removes, neither version
    contains the line, but the patch has not landed. Upstream's version must not contain a line that
    the patch removes. If upstream removed the whole range, a patch that only removes lines has
    landed.
    """
    if not ours:
        return all(change.new_start == change.new_stop for change in changes)
    head = tail = 0
    shortest = min(len(ours), len(theirs))
    while head < shortest and ours[head] == theirs[head]:
        head += 1
    while tail < shortest - head and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    if not head + tail or not _untouched(base, theirs[head : len(theirs) - tail], head, tail):
        return False
    removed = Counter(base) - Counter(theirs)
    counts = Counter(ours)
    return not any(counts[line] for line in removed)


def _doubtful(
    base: Sequence[Mark], ours: Sequence[Mark], theirs: Sequence[Mark], start: int, stop: int
) -> bool:
    """Return whether it is unknown which lines of the range upstream added or removed.

    This is the case if upstream's version starts with a copy of the line just above the range, or
    ends with a copy of the line just below it: either copy may be the one from the base. It is also
    the case if upstream removed a line that the patch kept and that equals one of these neighbors,
    because upstream may have removed the neighbor instead.
    """
    taken = Counter(theirs) - Counter(ours)
    above, below = base[max(start - 1, 0) : start], base[stop : stop + 1]
    return any(line in ours[:1] or line in taken for line in above) or any(
        line in ours[-1:] or line in taken for line in below
    )


def _untouched(base: Sequence[Mark], inner: Sequence[Mark], head: int, tail: int) -> bool:
    """Return whether `inner` is a contiguous run of the base's lines.

    `inner` is the patch's version without its first `head` and last `tail` lines, which upstream's
    version also has. If `head` is 0, the run must be at the start of the base. Otherwise, if `tail`
    is 0, it must be at the end.
    """
    size = len(inner)
    if not size:
        return True
    starts = range(len(base) - size + 1)
    if not head:
        starts = starts[:1]
    elif not tail:
        starts = starts[-1:]
    return any(tuple(base[start : start + size]) == tuple(inner) for start in starts)
