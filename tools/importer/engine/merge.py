# SPDX-License-Identifier: Apache-2.0
"""Three-way merge of one file: upstream's changes and the patch's, relative to their base.

For the base, the hashes of its lines are enough. Changes from the two sides conflict if they
overlap or are adjacent, unless they are identical or upstream's change is a superset of the
patch's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.importer.engine.align import Change, Match, align, changes, gaps, settle
from tools.importer.engine.marks import Mark
from tools.importer.engine.stretches import Stretch, stretches
from tools.importer.engine.text import Text, known_lines


@dataclass(frozen=True)
class Labels:
    """The labels of the conflict markers."""

    base: str = "base"
    ours: str = "ours"
    theirs: str = "theirs"


@dataclass(frozen=True)
class Region:
    """A range that the patch changes. `theirs` contains the patch's lines for the range.

    The range is base[start:stop] in the base, and ours[ours_start:ours_stop] in upstream's version.
    """

    start: int
    stop: int
    ours_start: int
    ours_stop: int
    theirs: tuple[bytes, ...]
    conflict: bool


@dataclass(frozen=True)
class Merge:
    """A merged file. `lines` contains conflict markers around each region in `conflicts`.

    `edits` lists the differences between upstream's version and the result, with positions in both.
    `upstream` lists the changes from the base to upstream's version, `stretches` the ranges that
    the patch changes, and `matches` the base lines that upstream kept.
    """

    lines: tuple[bytes, ...]
    conflicts: tuple[Region, ...]
    edits: tuple[Change, ...]
    upstream: tuple[Change, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    matches: tuple[Match, ...] = ()


def merge_texts(
    base: Text,
    ours: Text,
    theirs: Text,
    *,
    words: Mapping[Mark, bytes] | None = None,
    labels: Labels | None = None,
) -> Merge:
    """Merge three versions of a file. Of `base` and `theirs`, only the line hashes are needed.

    Lines of these two versions are looked up in `words` by hash if their text is missing. A line
    that occurs only in the base is never written to the result, except between conflict markers.
    """
    assert ours.lines is not None
    words = words or {}
    labels = labels or Labels()
    matches = align(base.marks, ours.marks, counts=(base.counts, ours.counts))
    our_changes = settle(base.marks, ours.marks, gaps(matches, len(base.marks), len(ours.marks)))
    their_changes = changes(base.marks, theirs.marks, counts=(base.counts, theirs.counts))
    out: list[bytes] = []
    conflicts: list[Region] = []
    edits: list[Change] = []
    position = 0  # index of the next line of `ours`
    touched = stretches(base.marks, ours.marks, theirs.marks, our_changes, their_changes)
    for stretch in touched:
        if stretch.same:
            continue
        region = _region(stretch, theirs, words, labels)
        out += ours.lines[position : region.ours_start]
        position = region.ours_stop
        begin = len(out)
        if region.conflict:
            conflicts.append(region)
            out += _marked(region, base, ours, words, labels)
        else:
            out += region.theirs
        edits.append(Change(region.ours_start, region.ours_stop, begin, len(out)))
    out += ours.lines[position:]
    return Merge(
        tuple(out),
        tuple(conflicts),
        tuple(edits),
        tuple(our_changes),
        tuple(touched),
        tuple(matches),
    )


def contested(
    merge: Merge,
    base: Text,
    ours: Text,
    theirs: Text,
    *,
    words: Mapping[Mark, bytes] | None = None,
    labels: Labels | None = None,
) -> list[bytes]:
    """Return `ours` with conflict markers around every range that the patch changes."""
    assert ours.lines is not None
    words = words or {}
    labels = labels or Labels()
    out: list[bytes] = []
    position = 0
    for stretch in merge.stretches:
        region = _region(stretch, theirs, words, labels)
        out += [
            *ours.lines[position : region.ours_start],
            *_marked(region, base, ours, words, labels),
        ]
        position = region.ours_stop
    return [*out, *ours.lines[position:]]


def _region(stretch: Stretch, theirs: Text, words: Mapping[Mark, bytes], labels: Labels) -> Region:
    return Region(
        stretch.start,
        stretch.stop,
        stretch.ours_start,
        stretch.ours_stop,
        tuple(known_lines(theirs, stretch.begin, stretch.end, words, labels.base)),
        stretch.conflict,
    )


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
    """End every line with a newline, because conflict markers must start on a new line."""
    return [line if line.endswith(b"\n") else line + b"\n" for line in lines]
