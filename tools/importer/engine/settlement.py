# SPDX-License-Identifier: Apache-2.0
"""Recognize a conflict that the user has resolved before, and reuse the resolution.

The key of a conflict covers the lines of base, upstream and patch, from the nearest unique line
above each of the patch's changes to the nearest one below it. Line numbers, paths and the rest of
the file do not matter. Equal keys mean that the user saw the same lines between the same
neighbors. A resolution can be reused only if it changes nothing outside the conflict markers.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from tools.importer.apply import split_lines
from tools.importer.engine.merge import Merge
from tools.importer.engine.outcome import Dispute, FileResult, Resolved, Settlement
from tools.importer.engine.text import Text
from tools.importer.snapshot import Blob

Lines = Sequence[bytes]


Settlements = Mapping[str, Settlement]


def dispute_of(base: Text, ours: Text, theirs: Text, merge: Merge) -> Dispute | None:
    """Return the conflicts of a merge, with the hash that is their key; None if there are none."""
    if not merge.conflicts:
        return None
    total = hashlib.sha256()
    anchors = _anchors(base, ours, merge)
    starts = [old for old, _ in anchors]
    ends = (-1, -1), (len(base.marks), len(ours.marks))
    for stretch in merge.stretches:
        below = bisect_left(starts, stretch.start)
        above = bisect_left(starts, stretch.stop)
        low = anchors[below - 1] if below else ends[0]
        high = anchors[above] if above < len(anchors) else ends[1]
        position = f"{stretch.start - low[0]} {stretch.stop - low[0]} {stretch.conflict}\n"
        total.update(position.encode())
        for marks in (
            base.marks[low[0] + 1 : high[0]],
            ours.marks[low[1] + 1 : high[1]],
            theirs.marks[stretch.begin : stretch.end],
        ):
            total.update(b"%d\n" % len(marks) + b"".join(marks))
    edits = iter(merge.edits)
    spans = tuple(
        next(
            (edit.new_start, edit.new_stop)
            for edit in edits
            if (edit.start, edit.stop) == (region.ours_start, region.ours_stop)
        )
        for region in merge.conflicts
    )
    return Dispute(total.hexdigest(), spans)


def learn(files: Sequence[FileResult], decision: Resolved) -> Settlement | None:
    """Return the user's conflict resolution in reusable form, or None if it cannot be reused.

    `files` are the results for the patch's files before the user resolved them.
    """
    stopped = [file for file in files if file.outcome.stops]
    key = _key_of(stopped)
    if key is None or {file.new_path for file in stopped} != set(decision.files):
        return None
    answers = []
    for file in stopped:
        blob = decision.files[file.new_path]
        assert file.dispute is not None
        assert file.after is not None
        if blob is None or blob.mode != file.after.mode:
            return None
        texts = _answers(file.dispute, file.after.data, blob.data)
        if texts is None:
            return None
        answers.append(texts)
    return Settlement(key, tuple(file.new_path for file in stopped), tuple(answers))


def recall(
    files: Sequence[FileResult], settlements: Settlements
) -> tuple[Settlement, Resolved] | None:
    """Return the stored resolution of a patch's conflicts, and the files that result from it.

    Returns None if there is no resolution, or if it cannot be applied.
    """
    stopped = [file for file in files if file.outcome.stops]
    settlement = settlements.get(_key_of(stopped) or "")
    if settlement is None or len(settlement.answers) != len(stopped):
        return None
    out: dict[str, Blob | None] = {}
    for file, texts in zip(stopped, settlement.answers, strict=True):
        assert file.dispute is not None
        assert file.after is not None
        data = _settled(file.dispute, file.after.data, texts)
        if data is None:
            return None
        out[file.new_path] = Blob(data, file.after.mode)
    return settlement, Resolved(out)


def _key_of(stopped: Sequence[FileResult]) -> str | None:
    """Return the key of a patch's conflicts; None unless all of them are text conflicts."""
    keys = [file.dispute.key for file in stopped if file.dispute is not None and file.after]
    if not keys or len(keys) < len(stopped):
        return None
    return keys[0] if len(keys) == 1 else hashlib.sha256("\n".join(keys).encode()).hexdigest()


def _anchors(base: Text, ours: Text, merge: Merge) -> list[tuple[int, int]]:
    """Return the (base, ours) indices of lines unique in both texts and changed by neither side."""
    touched = {line for stretch in merge.stretches for line in range(stretch.start, stretch.stop)}
    return [
        (old, match.new + old - match.old)
        for match in merge.matches
        for old in range(match.old, match.old + match.length)
        if old not in touched
        and base.counts[base.marks[old]] == 1
        and ours.counts[base.marks[old]] == 1
    ]


def _answers(dispute: Dispute, marked: bytes, resolved: bytes) -> tuple[bytes, ...] | None:
    """Return the text that replaces each conflict.

    Return None if these texts are ambiguous, or if lines outside the conflicts have changed.
    """
    kept, text = _kept(dispute, split_lines(marked)), split_lines(resolved)
    end = len(text) - len(kept[-1])
    if end < len(kept[0]) or text[: len(kept[0])] != kept[0] or text[end:] != kept[-1]:
        return None
    ways = _splits(text, len(kept[0]), end, kept[1:-1])
    if len(ways) != 1:
        return None
    return tuple(b"".join(text[start:stop]) for start, stop in ways[0])


def _splits(
    text: Lines, start: int, end: int, between: Sequence[Lines]
) -> list[list[tuple[int, int]]]:
    """Return up to two ways to split text[start:end] at `between`, the lines between conflicts.

    Each way is a list of (start, stop) ranges, one per resolution.
    """
    if not between:
        return [[(start, end)]]
    first, out = between[0], list[list[tuple[int, int]]]()
    for position in range(start, end - len(first) + 1):
        if list(text[position : position + len(first)]) == list(first):
            rest = _splits(text, position + len(first), end, between[1:])
            out += [[(start, position), *each] for each in rest]
        if len(out) > 1:
            break
    return out[:2]


def _settled(dispute: Dispute, marked: bytes, answers: Sequence[bytes]) -> bytes | None:
    """Return the text with each conflict replaced; None if a resolution would join two lines."""
    kept = [b"".join(lines) for lines in _kept(dispute, split_lines(marked))]
    if len(answers) != len(dispute.spans):
        return None
    out = kept[0]
    for answer, after in zip(answers, kept[1:], strict=True):
        if out and not out.endswith(b"\n") and answer:
            return None
        out += answer
        if out and not out.endswith(b"\n") and after:
            return None
        out += after
    return out


def _kept(dispute: Dispute, lines: Lines) -> list[list[bytes]]:
    """Return the lines before the first conflict, between conflicts, and after the last one."""
    bounds = [0, *(bound for span in dispute.spans for bound in span), len(lines)]
    return [list(lines[start:stop]) for start, stop in zip(bounds[::2], bounds[1::2], strict=True)]
