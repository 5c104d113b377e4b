# SPDX-License-Identifier: Apache-2.0
"""Merge a patch's change to the content and mode of a file with the new tree's version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.importer.engine.doubt import doubtful_line
from tools.importer.engine.evidence import upstream_diff
from tools.importer.engine.history import Old, Step
from tools.importer.engine.judge import inner_diff, judge
from tools.importer.engine.merge import Labels, Merge, Region, contested, merge_texts
from tools.importer.engine.outcome import Dispute, Outcome
from tools.importer.engine.settlement import dispute_of
from tools.importer.engine.text import Text
from tools.importer.snapshot import SYMLINK, Blob


@dataclass(frozen=True)
class FileMerge:
    """The merge of one file. If it needs manual resolution, `after` contains conflict markers.

    `inner` is the diff from the patch's version of the conflicting lines to upstream's. For a
    3-way merge without conflicts, `inner` is the diff from the old lines in the patch's hunks to
    upstream's lines. `conflicts` are the regions between conflict markers.
    """

    outcome: Outcome
    after: Blob | None
    note: str = ""
    inner: str = ""
    conflicts: tuple[Region, ...] = ()
    dispute: Dispute | None = None


@dataclass(frozen=True)
class MergedBlob:
    """The result of `merge_blobs`. If `conflict` is true, `blob` contains conflict markers."""

    blob: Blob | None
    conflict: bool


def merge_step(step: Step, before: Blob | None, labels: Labels) -> FileMerge:
    """Merge a patch's change to a file with `before`, the new tree's version of the file."""
    if step.before is None:
        assert step.after is not None
        assert step.after.blob is not None
        return _created(step.after.blob, before, labels)
    if step.after is None:
        return _deleted(step.before, before, labels)
    assert before is not None
    return _changed(step, step.before, step.after, before, labels)


def merge_blobs(
    base: Blob | None, ours: Blob | None, theirs: Blob | None, *, labels: Labels | None = None
) -> MergedBlob:
    """Merge three versions of a file, given in full. None means that the file is absent."""
    labels = labels or Labels()
    if ours == theirs or theirs == base:
        return MergedBlob(ours, False)
    if ours == base:
        return MergedBlob(theirs, False)
    mode = _merge_modes(*(blob.mode if blob else None for blob in (base, ours, theirs)))
    versions = [blob for blob in (base, ours, theirs) if blob is not None]
    if any(b"\0" in blob.data or blob.mode == SYMLINK for blob in versions):
        return MergedBlob(_placeholder(labels, mode or "100644"), True)
    old, mine, yours = (Text.of(blob.data if blob else b"") for blob in (base, ours, theirs))
    merge = merge_texts(old, mine, yours, labels=labels)
    gone = base is not None and (ours is None or theirs is None)
    if gone and not merge.conflicts:
        both = _whole(old.data, mine.data, yours.data, labels)
        return MergedBlob(Blob(both, mode or versions[0].mode), True)
    blob = Blob(b"".join(merge.lines), mode or versions[0].mode)
    if not merge.conflicts and doubtful_line(old, mine, yours, merge) is not None:
        marked = b"".join(contested(merge, old, mine, yours, labels=labels))
        return MergedBlob(Blob(marked, blob.mode), True)
    return MergedBlob(blob, bool(merge.conflicts) or mode is None)


def _created(after: Blob, before: Blob | None, labels: Labels) -> FileMerge:
    if before is None:
        return FileMerge(Outcome.CLEAN, after)
    if before == after:
        return FileMerge(Outcome.LANDED, before, "upstream has the file")
    if before.data == after.data:
        return FileMerge(Outcome.CONFLICT, _placeholder(labels, before.mode), "the modes differ")
    if b"\0" in before.data + after.data or SYMLINK in (before.mode, after.mode):
        return FileMerge(
            Outcome.CONFLICT,
            _placeholder(labels, before.mode),
            "upstream has a different file of that name",
        )
    marked = _whole(b"", before.data, after.data, labels)
    return FileMerge(
        Outcome.CONFLICT, Blob(marked, before.mode), "upstream has a file of that name now"
    )


def _deleted(old: Old, before: Blob | None, labels: Labels) -> FileMerge:
    if before is None:
        return FileMerge(Outcome.LANDED, None, "upstream deleted the file")
    if old.same_as(before):
        return FileMerge(Outcome.CLEAN, None)
    text = before.data if b"\0" not in before.data else b"(binary)\n"
    return FileMerge(
        Outcome.CONFLICT,
        Blob(_whole(b"", text, b"", labels), before.mode),
        "the patch deletes the file, upstream changed it",
    )


def _changed(step: Step, old: Old, new: Old, before: Blob, labels: Labels) -> FileMerge:
    if old.same_as(before) and new.blob is not None:
        return FileMerge(Outcome.CLEAN, new.blob)
    if new.same_as(before) and not step.diff.hunks:
        return FileMerge(Outcome.LANDED, before, "upstream has it")
    mode = _merge_modes(old.mode, before.mode, new.mode)
    if mode is None:
        return FileMerge(
            Outcome.CONFLICT,
            _placeholder(labels, before.mode),
            f"its mode was {old.mode}, is {before.mode} upstream and {new.mode} in the patch",
        )
    ours = Text.of(before.data)
    if old.mode == new.mode == before.mode == SYMLINK and new.text.marks == ours.marks:
        return FileMerge(Outcome.LANDED, before, "upstream has it")
    if step.diff.binary is not None or SYMLINK in (old.mode, before.mode):
        return FileMerge(
            Outcome.CONFLICT,
            _placeholder(labels, before.mode),
            "both changed it, and it is not text, so it cannot be merged",
        )
    merge = merge_texts(old.text, ours, new.text, words=step.words, labels=labels)
    after = Blob(b"".join(merge.lines), mode)
    outcome, note = _outcome(step, old.text, ours, new.text, merge, mode != before.mode)
    inner = "".join(inner_diff(region, ours) for region in merge.conflicts)
    if outcome is Outcome.THREE_WAY:
        inner = "".join(upstream_diff(hunk, ours, merge.upstream) for hunk in step.diff.hunks)
    if outcome.stops and not merge.conflicts:
        after = Blob(
            _undecided(before, after, labels)
            if merge.edits
            else b"".join(
                contested(merge, old.text, ours, new.text, words=step.words, labels=labels)
            ),
            mode,
        )
    dispute = dispute_of(old.text, ours, new.text, merge)
    return FileMerge(outcome, after, note, inner, merge.conflicts, dispute)


def _outcome(
    step: Step, base: Text, ours: Text, theirs: Text, merge: Merge, mode_changes: bool
) -> tuple[Outcome, str]:
    if not step.diff.hunks:
        return (Outcome.CLEAN if mode_changes else Outcome.LANDED), ""
    outcome, note = judge(base, ours, theirs, step.diff.hunks, merge)
    if outcome is Outcome.LANDED and mode_changes:
        return Outcome.THREE_WAY, "upstream has its lines but not its mode"
    return outcome, note


def _merge_modes(base: str | None, ours: str | None, theirs: str | None) -> str | None:
    """Return the merged mode; None if the two sides changed it to different modes."""
    if ours == theirs or theirs == base or theirs is None:
        return ours
    return theirs if ours == base or ours is None else None


def _undecided(before: Blob, after: Blob, labels: Labels) -> bytes:
    """Return the file with conflict markers around the patch's changes, for the user to resolve."""
    ours, theirs = Text.of(before.data), Text.of(after.data)
    merge = merge_texts(ours, ours, theirs)
    assert ours.lines is not None
    out: list[bytes] = []
    position = 0
    for edit in merge.edits:
        out += ours.lines[position : edit.start]
        mine = ours.lines[edit.start : edit.stop]
        yours = merge.lines[edit.new_start : edit.new_stop]
        out += [
            b"<<<<<<< %s\n" % labels.ours.encode(),
            *_ended(mine),
            b"||||||| %s\n" % labels.base.encode(),
            *_ended(mine),
            b"=======\n",
            *_ended(yours),
            b">>>>>>> %s\n" % labels.theirs.encode(),
        ]
        position = edit.stop
    return b"".join([*out, *ours.lines[position:]])


def _whole(base: bytes, ours: bytes, theirs: bytes, labels: Labels) -> bytes:
    """Return the merged contents as one conflict that spans the entire file."""
    return b"".join(
        [
            b"<<<<<<< %s\n" % labels.ours.encode(),
            *_ended(_lines(ours)),
            b"||||||| %s\n" % labels.base.encode(),
            *_ended(_lines(base)),
            b"=======\n",
            *_ended(_lines(theirs)),
            b">>>>>>> %s\n" % labels.theirs.encode(),
        ]
    )


def _placeholder(labels: Labels, mode: str) -> Blob:
    """Return placeholder text for a file that conflict markers would corrupt."""
    notice = b"This is no text. Put the wanted bytes (or link) in place of this file.\n"
    return Blob(_whole(b"", notice, b"", labels), mode if mode != SYMLINK else "100644")


def _lines(data: bytes) -> Sequence[bytes]:
    lines = Text.of(data).lines
    assert lines is not None
    return lines


def _ended(lines: Sequence[bytes]) -> list[bytes]:
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]
