# SPDX-License-Identifier: Apache-2.0
"""Test support: merges of files whose lines have an identity that the engine does not see.

A base line's identity is its position, so identical lines remain distinct. Both sides' edits refer
to positions, so merging by position gives the correct result. The engine sees only the text. It
must produce the same result or stop for the user.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.importer.engine.file_merge import FileMerge, merge_step
from tools.importer.engine.history import Old, Step
from tools.importer.engine.marks import mark_of
from tools.importer.engine.merge import Labels
from tools.importer.engine.render import Change, render_patch
from tools.importer.engine.text import Text
from tools.importer.snapshot import REGULAR, Blob
from tools.importer.unified import parse_diff

Lines = tuple[bytes, ...]


@dataclass(frozen=True, order=True)
class LineEdit:
    """An edit that replaces the base lines `start` to `stop` with `new`."""

    start: int
    stop: int
    new: Lines = ()


@dataclass(frozen=True)
class Story:
    """A test case: a base, and each side's edits, in order and separated by unchanged lines."""

    base: Lines
    upstream: tuple[LineEdit, ...]
    patch: tuple[LineEdit, ...]

    @property
    def ours(self) -> Lines:
        return edited(self.base, self.upstream)

    @property
    def theirs(self) -> Lines:
        return edited(self.base, self.patch)

    @property
    def landed(self) -> bool:
        """Return whether upstream's edits include all of the patch's, on the same lines."""
        removed = _removed(self.upstream)
        return _removed(self.patch) <= removed and all(
            any(_has_new(mine, edit) for mine in self.upstream) for edit in self.patch if edit.new
        )

    @property
    def truth(self) -> Lines | None:
        """Return the merge of both sides' edits by line identity; None if the edits conflict."""
        pending = [
            edit for edit in self.patch if not Story(self.base, self.upstream, (edit,)).landed
        ]
        if any(_contradict(mine, other) for mine in self.upstream for other in pending):
            return None
        return edited(self.base, sorted({*self.upstream, *pending}))

    @property
    def is_told(self) -> bool:
        """Return whether every edit is visible in the texts.

        An edit is hidden if a side removed a line and added an identical one, because the line then
        looks unchanged.
        """
        for edits in (self.upstream, self.patch):
            removed = _removed(edits)
            if common(self.base, edited(self.base, edits)) != len(self.base) - len(removed):
                return False
            if {self.base[index] for index in removed} & {
                line for edit in edits for line in edit.new
            }:
                return False
        return True

    def slid(self) -> Iterator[Story]:
        """Yield variants in which the patch removes different lines, but results in the same text.

        For example, a function may be removed with the blank line above it or the one below it. In
        each variant, the patch still removes at least one of the lines that it removes here.
        """
        removed = _removed(self.patch)
        for steps in itertools.product(range(-3, 4), repeat=len(self.patch)):
            edits = tuple(map(_shifted, self.patch, steps))
            if min(edit.start for edit in edits) < 0 or edits[-1].stop > len(self.base):
                continue
            if edited(self.base, edits) == self.theirs and _removed(edits) & removed:
                yield Story(self.base, self.upstream, edits)


def edited(base: Lines, edits: Sequence[LineEdit]) -> Lines:
    """Return the base with the edits applied. Two edits may remove the same line."""
    removed, out = _removed(edits), list[bytes]()
    new: dict[int, Lines] = {}
    for edit in edits:
        new[edit.start] = new.get(edit.start, ()) + edit.new
    for index in range(len(base) + 1):
        out += new.get(index, ())
        if index < len(base) and index not in removed:
            out.append(base[index])
    return tuple(out)


def merged(story: Story) -> FileMerge:
    """Return the engine's merge of the test case's three versions."""
    base, ours, theirs = (b"".join(lines) for lines in (story.base, story.ours, story.theirs))
    return carried(base, ours, theirs)


def carried(base: bytes, ours: bytes, theirs: bytes) -> FileMerge:
    """Merge upstream's version (`ours`) with the patch from `base` to `theirs`."""
    before, after = Blob(base), Blob(theirs)
    (diff,) = parse_diff(render_patch(b"Subject: Any", [Change("a", "a", before, after)]))
    words = {mark_of(line): line for hunk in diff.hunks for line in (*hunk.old, *hunk.new)}
    old, new = (Old(REGULAR, None, Text.of(blob.data).marks, blob.oid) for blob in (before, after))
    return merge_step(Step(diff, old, new, words), Blob(ours), Labels())


def single_edits(size: int, new: Sequence[Lines] = ((),)) -> Iterator[LineEdit]:
    """Yield each edit that replaces a non-empty range of a `size`-line text with one of `new`."""
    for start in range(size):
        for stop in range(start + 1, size + 1):
            for lines in new:
                yield LineEdit(start, stop, lines)


def common(one: Lines, other: Lines) -> int:
    """Return the length of the longest common subsequence of two texts."""
    row = [0] * (len(other) + 1)
    for line in one:
        last = row
        row = [0]
        for index, match in enumerate(other):
            row.append(last[index] + 1 if line == match else max(row[index], last[index + 1]))
    return row[-1]


def _removed(edits: Sequence[LineEdit]) -> set[int]:
    return {line for edit in edits for line in range(edit.start, edit.stop)}


def _has_new(mine: LineEdit, edit: LineEdit) -> bool:
    """Return whether `mine` adds all new lines of `edit` at the same place."""
    size = len(edit.new)
    if mine.start != edit.start and mine.stop != edit.stop:
        return False
    return any(
        mine.new[:head] + mine.new[len(mine.new) - size + head :] == edit.new
        for head in range(size + 1)
    )


def _shifted(edit: LineEdit, steps: int) -> LineEdit:
    return edit if edit.new else LineEdit(edit.start + steps, edit.stop + steps)


def _contradict(one: LineEdit, other: LineEdit) -> bool:
    """Return whether two edits conflict. Two edits that only remove lines never conflict."""
    if not one.new and not other.new:
        return False
    if one.start == one.stop == other.start == other.stop:
        return True
    low, high = max(one.start, other.start), min(one.stop, other.stop)
    inside = low < high
    inserts = any(
        a.start == a.stop and b.start < a.start < b.stop for a, b in ((one, other), (other, one))
    )
    return inside or inserts
