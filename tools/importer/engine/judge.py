# SPDX-License-Identifier: Apache-2.0
"""Determine a merge's outcome: clean, offset, 3-way, landed, suspected, ambiguous or conflict."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

from tools.importer.engine.align import Change, Match
from tools.importer.engine.doubt import doubtful_line
from tools.importer.engine.marks import Mark, mark_of
from tools.importer.engine.merge import Merge, Region
from tools.importer.engine.outcome import Outcome
from tools.importer.engine.text import Text, is_significant
from tools.importer.unified import Hunk

# Suspect that upstream contains the patch if the two sides of each conflict are at least this
# similar.
_ALIKE = 0.6
# The number of context lines on each side that locate an edit, as in a patch.
_HOLD = 3


def judge(
    base: Text, ours: Text, theirs: Text, hunks: Sequence[Hunk], merge: Merge
) -> tuple[Outcome, str]:
    """Return the outcome for one file, with a short note.

    `theirs` is the base with the patch applied. `hunks` are the patch's hunks against `base`. If
    the merge has two possible results, the outcome is `ambiguous`.
    """
    if merge.conflicts:
        return _of_conflict(ours, hunks, merge.conflicts)
    doubt = doubtful_line(base, ours, theirs, merge)
    if not merge.edits:
        if doubt is not None:
            return Outcome.AMBIGUOUS, (
                f"upstream may have it at line {doubt + 1} of the old file, or may have changed "
                "lines next to it that read the same"
            )
        return Outcome.LANDED, "upstream has it"
    twice = _already_there(base, ours, hunks)
    if twice:
        return Outcome.SUSPECTED, f"upstream already has the line '{twice}', at another place"
    matches = merge.matches
    loose = _loose(base, ours, merge.upstream)
    unclear = [
        number
        for number, hunk in enumerate(hunks, start=1)
        if _covered(hunk, loose, len(base.marks)) or _unclear(base, ours, hunk, matches)
    ]
    if unclear:
        return (
            Outcome.AMBIGUOUS,
            f"hunk {unclear[0]}: its lines stand at several places and nothing unique is near",
        )
    if doubt is not None:
        return Outcome.AMBIGUOUS, (
            f"its lines stand at several places near line {doubt + 1} of the old file, and upstream "
            "changed one of those"
        )
    offsets = [_place(base, ours, hunk, matches) for hunk in hunks]
    if any(offset is None for offset in offsets):
        landed = len(merge.edits) < sum(len(hunk.edits) for hunk in hunks)
        return Outcome.THREE_WAY, "lines around it changed" + (
            "; upstream has a part of it" if landed else ""
        )
    if any(offset for offset in offsets):
        return Outcome.OFFSET, f"moved by {offsets[0] or next(filter(None, offsets)):+d} lines"
    return Outcome.CLEAN, ""


def inner_diff(region: Region, ours: Text) -> str:
    """Return the diff from the patch's version of a region to upstream's."""
    assert ours.lines is not None
    upstream = ours.lines[region.ours_start : region.ours_stop]
    return "".join(
        difflib.unified_diff(
            [line.decode("utf-8", "replace") for line in region.theirs],
            [line.decode("utf-8", "replace") for line in upstream],
            "the patch",
            "upstream",
            n=0,
        )
    )


def _of_conflict(
    ours: Text, hunks: Sequence[Hunk], conflicts: Sequence[Region]
) -> tuple[Outcome, str]:
    where = _lines_of(conflicts)
    added = _added_lines(hunks)
    significant = [line for line in added if is_significant(line)]
    present = sum(1 for line in significant if _stands_in(line, ours))
    alike = all(_likeness(region, ours) >= _ALIKE for region in conflicts)
    if significant and (present * 2 > len(significant) or alike):
        return Outcome.SUSPECTED, _likely(present, len(significant), where)
    if all(region.ours_start == region.ours_stop for region in conflicts):
        return Outcome.CONFLICT, f"upstream took out the lines that it changes, before {where}"
    return Outcome.CONFLICT, f"both changed {where}"


def _lines_of(conflicts: Sequence[Region]) -> str:
    """Return the line numbers of the first few conflicts in upstream's new file, for a message."""
    first = [str(region.ours_start + 1) for region in conflicts[:3]]
    if len(conflicts) > len(first):
        return f"lines {', '.join(first)} and {len(conflicts) - len(first)} more"
    return f"lines {', '.join(first[:-1])} and {first[-1]}" if first[1:] else f"line {first[0]}"


def _likely(present: int, count: int, where: str) -> str:
    """Return why a patch may have landed: upstream has `present` of its `count` new lines."""
    if not present:
        return f"upstream changed {where} much like it"
    if count == 1:
        return f"upstream has its new line; the lines around it differ at {where}"
    if present == count:
        return f"upstream has all of its {count} new lines; the lines around them differ at {where}"
    return f"upstream has {present} of its {count} new lines; they differ at {where}"


def _stands_in(line: bytes, ours: Text) -> bool:
    assert ours.lines is not None
    return line in ours.lines


def _likeness(region: Region, ours: Text) -> float:
    assert ours.lines is not None
    upstream = b"".join(ours.lines[region.ours_start : region.ours_stop])
    patch = b"".join(region.theirs)
    if not upstream or not patch:
        return 0.0
    return difflib.SequenceMatcher(None, _text(upstream), _text(patch), autojunk=False).ratio()


def _text(data: bytes) -> str:
    return data[:4000].decode("utf-8", "replace")


def _added_lines(hunks: Sequence[Hunk]) -> list[bytes]:
    return [
        line
        for hunk in hunks
        for edit in hunk.edits
        for line in hunk.new[edit.new_start : edit.new_stop]
    ]


def _already_there(base: Text, ours: Text, hunks: Sequence[Hunk]) -> str:
    """Return one of the patch's significant added lines if upstream has all of them, else "".

    Short lines, and lines that occur in the base, are not significant.
    """
    added = Counter(
        line
        for line in _added_lines(hunks)
        if is_significant(line) and not base.counts[mark_of(line)]
    )
    if not added:
        return ""
    for line, count in added.items():
        if ours.counts[mark_of(line)] < count:
            return ""
    line = next(iter(added))
    return line.decode("utf-8", "replace").strip()[:60]


def _place(base: Text, ours: Text, hunk: Hunk, matches: Sequence[Match]) -> int | None:
    """Return the offset by which upstream moved the hunk's old lines; None if it changed them."""
    start, size = hunk.old_index, len(hunk.old)
    if not size:
        start, size = max(start - 1, 0), 1
    for match in matches:
        if match.old <= start and start + size <= match.old + match.length:
            return match.new - match.old
    return None if len(base.marks) else 0


def _loose(base: Text, ours: Text, upstream: Sequence[Change]) -> list[tuple[int, int]]:
    """Return the base ranges within which an upstream insertion or deletion can slide.

    For example, if upstream adds a copy of a block next to it, either copy may be the new one.
    """
    old, new = base.marks, ours.marks
    out: list[tuple[int, int]] = []
    limit = 0
    for change in upstream:
        start, stop, last = change.start, change.stop, change.new_stop
        if start == stop:
            while start > limit and old[start - 1] == new[last - 1]:
                start, last = start - 1, last - 1
        elif change.new_start == change.new_stop:
            while start > limit and old[start - 1] == old[start - 1 + change.stop - change.start]:
                start -= 1
        if start < change.start:
            out.append((start, stop))
        limit = change.stop
    return out


def _covered(hunk: Hunk, loose: Sequence[tuple[int, int]], size: int) -> bool:
    """Return whether the position of an edit is unclear.

    This is the case if a range in `loose`, within which upstream's change can slide, contains the
    edit and its context.
    """
    first = hunk.old_index
    for edit in hunk.edits:
        start = max(min(first, first + edit.start - _HOLD), 0)
        stop = min(max(first + len(hunk.old), first + edit.stop + _HOLD), size)
        if any(low <= start and stop <= high for low, high in loose):
            return True
    return False


def _unclear(base: Text, ours: Text, hunk: Hunk, matches: Sequence[Match]) -> bool:
    """Return whether only repeated lines show where the hunk belongs.

    This is the case if upstream has changed the number of copies of the hunk's old lines, and no
    run of matching lines that overlaps or adjoins the hunk has a line that is unique on both sides.
    """
    start, stop = hunk.old_index, hunk.old_index + len(hunk.old)
    block = base.marks[start:stop]
    if base.marks == ours.marks:
        return False
    if block and _count(base.marks, block) == _count(ours.marks, block) != 0:
        return False
    low, high = max(start - 1, 0), stop + 1
    for match in matches:
        if match.old < high and low < match.old + match.length:
            for mark in base.marks[match.old : match.old + match.length]:
                if base.counts[mark] == 1 and ours.counts[mark] == 1:
                    return False
    return bool(base.marks)


def _count(marks: Sequence[Mark], block: Sequence[Mark]) -> int:
    size, first = len(block), block[0]
    block = tuple(block)
    return sum(
        1
        for index in range(len(marks) - size + 1)
        if marks[index] == first and tuple(marks[index : index + size]) == block
    )
