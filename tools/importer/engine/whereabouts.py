# SPDX-License-Identifier: Apache-2.0
"""Find the lines of a conflicting hunk elsewhere in upstream's tree, as a hint to the user."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tools.importer.engine.marks import Mark, marks_of
from tools.importer.engine.merge import Region
from tools.importer.engine.text import Text, is_significant
from tools.importer.names import shown
from tools.importer.unified import Hunk

# Skip this many lines before and after a conflict, because lines found there have not moved.
_NEAR = 8


@dataclass(frozen=True)
class _Place:
    """A run of a hunk's lines in a file: the index of its first line, and its length."""

    index: int
    size: int


def whereabouts(
    hunks: Sequence[Hunk],
    regions: Sequence[Region],
    ours: Text | None,
    others: Mapping[str, Text],
    elsewhere: Callable[[], Iterable[tuple[str, Text]]],
) -> str:
    """Return a note that says where upstream has the lines that conflicting hunks change.

    The note is "" if there is no match. `ours` is the new tree's file; None if upstream deleted it.
    `others` are the patch's other files. `elsewhere` yields files outside the patch; it is called
    only if `others` do not contain the lines. A match needs three significant lines, or two in a
    run of at least half of the hunk, and must be unique.
    """
    stopped: list[Hunk] = []
    for hunk in hunks:
        start, stop = hunk.old_index, hunk.old_index + len(hunk.old)
        touched = [region for region in regions if region.start <= stop and start <= region.stop]
        if ours is None:
            pieces = []
        elif touched:
            low = max(min(region.ours_start for region in touched) - _NEAR, 0)
            pieces = [(0, ours.marks[:low])]
            high = max(region.ours_stop for region in touched) + _NEAR
            pieces.append((high, ours.marks[high:]))
        else:
            continue
        stopped.append(hunk)
        for first, marks in pieces:
            match = _find(hunk, marks)
            if match is not None:
                return f"its lines are at line {first + match.index + 1} now"
        for path, text in others.items():
            match = _find(hunk, text.marks)
            if match is not None:
                return _in_file(path, match)
    files = list(elsewhere()) if stopped else []
    for hunk in stopped:
        places = [(path, match) for path, text in files if (match := _find(hunk, text.marks))]
        if places:
            return _in_file(*places[0]) if len(places) == 1 else ""
    return ""


def _in_file(path: str, match: _Place) -> str:
    return f"its lines are in '{shown(path)}' at line {match.index + 1} now"


def _find(hunk: Hunk, marks: Sequence[Mark]) -> _Place | None:
    """Return the longest run of the hunk's old lines in a file, or None if no match is clear.

    A clear match is unique, contains a changed line and has enough significant lines.
    """
    block = marks_of(hunk.old)
    if not block or not set(block) & set(marks):
        return None
    matcher = difflib.SequenceMatcher(None, block, marks, autojunk=False)
    match = matcher.find_longest_match(0, len(block), 0, len(marks))
    stop = match.a + match.size
    significant = sum(is_significant(line) for line in hunk.old[match.a : stop])
    changed = any(
        match.a <= edit.start < stop if edit.start < edit.stop else match.a < edit.start < stop
        for edit in hunk.edits
    )
    if significant < 2 or (significant < 3 and match.size * 2 < len(block)) or not changed:
        return None
    run, size = list(block[match.a : stop]), match.size
    marks = list(marks)
    again = (
        index
        for index in range(match.b + 1, len(marks) - size + 1)
        if marks[index] == run[0] and marks[index : index + size] == run
    )
    return None if next(again, None) is not None else _Place(match.b, size)
