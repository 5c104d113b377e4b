# SPDX-License-Identifier: Apache-2.0
"""The files of the old upstream tree, before and after each patch of the series.

A file's text is available if the new tree contains the same blob, or if the full old tree is
available. Otherwise, only the hashes of its lines are available.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.importer.apply import ApplyError, apply_hunks
from tools.importer.binary import BinaryError, apply_side
from tools.importer.engine.base import Base
from tools.importer.engine.doubt import doubtful_line
from tools.importer.engine.marks import Mark, mark_of, marks_of
from tools.importer.engine.merge import merge_texts
from tools.importer.engine.text import Text
from tools.importer.errors import UserError
from tools.importer.names import shown
from tools.importer.series import Patch, Series
from tools.importer.snapshot import REGULAR, Blob, Snapshot
from tools.importer.unified import FileDiff, Hunk

Read = Callable[[str], Blob | None]


@dataclass(frozen=True)
class Old:
    """A file of the old tree before or after a patch: its bytes, or only hashes of its lines."""

    mode: str
    blob: Blob | None
    marks: tuple[Mark, ...] = ()
    oid: str | None = None

    @cached_property
    def text(self) -> Text:
        return Text.of(self.blob.data) if self.blob else Text(self.marks)

    def same_as(self, other: Blob) -> bool:
        """Return whether `other` has the same bytes and mode as this file."""
        if self.mode != other.mode:
            return False
        if self.blob is not None:
            return self.blob.data == other.data
        if self.oid is not None:
            return self.oid == other.oid
        return self.marks == Text.of(other.data).marks


@dataclass(frozen=True)
class Step:
    """One patch's change to one file of the old tree."""

    diff: FileDiff
    before: Old | None
    after: Old | None
    words: Mapping[Mark, bytes]


class History:
    """The state of the old tree before the next patch. `advance` applies that patch."""

    def __init__(self, series: Series, base: Base, new: Snapshot, old: Snapshot | None) -> None:
        self._series = series
        self._base = base
        self._new = new
        self._old = old
        self._files: dict[str, Old | None] = {}
        self._next: tuple[Patch, tuple[Step | None, ...], dict[str, Old | None]] | None = None

    def steps(self, patch: Patch) -> tuple[Step | None, ...]:
        """Return the next patch's steps, one per diff; None for a file that the base lacks.

        Raises UserError if the patch does not apply to the base.
        """
        if self._next is None or self._next[0] is not patch:
            files: dict[str, Old | None] = {}
            steps = tuple(self._step(patch, diff, files) for diff in patch.files)
            self._next = patch, steps, files
        return self._next[1]

    def advance(self, patch: Patch) -> None:
        """Apply the next patch to the old tree."""
        self.steps(patch)
        assert self._next is not None
        self._files |= self._next[2]
        self._next = None

    def _step(self, patch: Patch, diff: FileDiff, files: dict[str, Old | None]) -> Step | None:
        """Return the step for one diff; None if the base can never contain the file.

        For example, a base from a wheel never contains C++ sources. `files` holds the results of
        the patch's earlier diffs.
        """
        if any(path in self._base.absent for path in diff.paths):
            return None
        before = None
        if diff.old_path is not None:
            before = files[diff.old_path] if diff.old_path in files else self._read(diff.old_path)
            if before is None:
                raise UserError(
                    f"{patch.name}: {shown(diff.old_path)}: the recorded base has no such file. "
                    "Record the base again: `tools/import.py refresh --base`"
                )
        step = Step(diff, before, _advance(patch, diff, before), self.words)
        if diff.old_path is not None and diff.old_path != diff.new_path:
            files[diff.old_path] = None
        if diff.new_path is not None:
            files[diff.new_path] = step.after
        return step

    @cached_property
    def words(self) -> dict[Mark, bytes]:
        """Return a map from line hashes to lines, for every line in the patches' hunks."""
        return {
            mark_of(line): line
            for patch in self._series.patches
            for diff in patch.files
            for hunk in diff.hunks
            for side in (hunk.old, hunk.new)
            for line in side
        }

    def neighbors(self, index: int) -> list[Patch]:
        """Return the patch at `index` and all later ones that change the same or adjacent lines."""
        first = self._series.patches[index]
        group = [first]
        ranges: dict[str, list[tuple[int, int]]] = {}
        for diff in first.files:
            ranges[diff.path] = [(new, new_stop) for _, _, new, new_stop in _edits(diff)]
        for patch in self._series.patches[index + 1 :]:
            joined = False
            for diff in patch.files:
                for start, stop, _, _ in _edits(diff):
                    joined |= any(
                        start <= high and low <= stop for low, high in ranges.get(diff.path, [])
                    )
            for diff in patch.files:
                moved = [_moved(item, _edits(diff)) for item in ranges.get(diff.path, [])]
                own = [(new, new_stop) for _, _, new, new_stop in _edits(diff)] if joined else []
                if moved or own:
                    ranges[diff.path] = moved + own
            if joined:
                group.append(patch)
        return group

    def group_landed(self, group: Sequence[Patch], read: Read, moved: Mapping[str, str]) -> bool:
        """Return whether merging all patches of `group` at once leaves the new tree unchanged."""
        members = {patch.name for patch in group}
        start: dict[str, Text] = {}
        composed: dict[str, Text] = {}
        trail = copy.copy(self)
        trail._files = dict(self._files)
        created: set[str] = set()
        names = [patch.name for patch in self._series.patches]
        low, high = names.index(group[0].name), names.index(group[-1].name)
        for patch in self._series.patches[low : high + 1]:
            if patch.name in members:
                for diff, step in zip(patch.files, trail.steps(patch), strict=True):
                    if step is None or step.after is None or diff.binary or len(diff.paths) > 1:
                        return False
                    if step.before is None:
                        created.add(diff.path)
                    begin = _as_marks(step.before.text if step.before else Text(()))
                    start.setdefault(diff.path, begin)
                    merged = merge_texts(
                        begin,
                        composed.get(diff.path, begin),
                        _as_marks(step.after.text),
                    )
                    if merged.conflicts:
                        return False
                    composed[diff.path] = Text(merged.lines, merged.lines)
            trail.advance(patch)
        for path, text in composed.items():
            blob = read(moved.get(path, path))
            if blob is None:
                return False
            ours = Text.of(blob.data)
            if path in created and ours.marks != text.marks:
                return False
            merged = merge_texts(start[path], ours, text, words=self.words)
            if merged.conflicts or merged.edits:
                return False
            if doubtful_line(start[path], ours, text, merged) is not None:
                return False
        return True

    def _read(self, path: str) -> Old | None:
        if path not in self._files:
            self._files[path] = self._from_base(path)
        return self._files[path]

    def _from_base(self, path: str) -> Old | None:
        file = self._base.files.get(path)
        if file is None:
            return None
        for tree in (self._new, self._old):
            blob = tree.read(path) if tree is not None else None
            if blob is not None and blob.oid == file.oid:
                return Old(file.mode, Blob(blob.data, file.mode), (), file.oid)
        return Old(file.mode, None, file.marks, file.oid)


def _as_marks(text: Text) -> Text:
    """Return the text with its lines replaced by hashes, for a merge that needs no text."""
    return Text(text.marks, text.marks)


def _advance(patch: Patch, diff: FileDiff, before: Old | None) -> Old | None:
    if diff.new_path is None:
        return None
    mode = diff.new_mode or (before.mode if before else REGULAR)
    where = f"{patch.name}: {shown(diff.path)}"
    try:
        if diff.binary is not None:
            if diff.binary.forward.delta and before is not None and before.blob is None:
                return Old(mode, None, (), diff.binary.new_oid)
            data = before.blob.data if before and before.blob else b""
            return Old(mode, Blob(apply_side(diff.binary.forward, data), mode))
        if before is None:
            return Old(mode, Blob(apply_hunks(b"", diff.hunks), mode))
        if before.blob is not None:
            return Old(mode, Blob(apply_hunks(before.blob.data, diff.hunks), mode))
        return Old(mode, None, _advance_marks(before.marks, diff.hunks))
    except (ApplyError, BinaryError) as error:
        raise UserError(
            f"{where}: {error}: it does not fit the base that base.json records. "
            "Restore both from version control, or record the base again"
        ) from None


def _advance_marks(marks: tuple[Mark, ...], hunks: Sequence[Hunk]) -> tuple[Mark, ...]:
    out: list[Mark] = []
    done = 0
    for number, hunk in enumerate(hunks, start=1):
        start, stop = hunk.old_index, hunk.old_index + len(hunk.old)
        if start < done or marks[start:stop] != marks_of(hunk.old):
            raise ApplyError(f"hunk {number}: its lines are not at line {hunk.old_start}")
        out += marks[done:start]
        out += marks_of(hunk.new)
        done = stop
    return (*out, *marks[done:])


def _edits(diff: FileDiff) -> list[tuple[int, int, int, int]]:
    """Return the line ranges that a diff changes, as (start, stop) in the old and the new file."""
    out: list[tuple[int, int, int, int]] = []
    shift = 0
    for hunk in diff.hunks:
        first = hunk.old_index
        for edit in hunk.edits:
            out.append(
                (
                    first + edit.start,
                    first + edit.stop,
                    first + shift + edit.new_start,
                    first + shift + edit.new_stop,
                )
            )
        shift += len(hunk.new) - len(hunk.old)
    return out


def _moved(item: tuple[int, int], edits: Sequence[tuple[int, int, int, int]]) -> tuple[int, int]:
    low, high = item
    start, stop = low, high
    for old, old_stop, new, new_stop in edits:
        delta = (new_stop - new) - (old_stop - old)
        if old_stop <= low:
            start += delta
        if old <= high:
            stop += delta
    return start, max(start, stop)
