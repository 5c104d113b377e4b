# SPDX-License-Identifier: Apache-2.0
"""Find the new path of a moved file by its lines, and files that may contain parts of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.importer.engine.base import Base
from tools.importer.engine.marks import Mark, path_mark
from tools.importer.engine.text import Text
from tools.importer.snapshot import Snapshot

# As in git, a file counts as moved if at least half of its lines are unchanged.
_LIKENESS = 0.5
# The search is ambiguous if the two best scores differ by less than this.
_MARGIN = 0.1
# The maximum number of files that one search reads. If no new file with the same extension is
# similar, a second search reads files with other extensions.
_READ = 3000


@dataclass(frozen=True)
class Found:
    """The result of a search. `path` is None unless one file is clearly the most similar.

    `note` names that file, or the two best candidates.
    """

    path: str | None
    note: str


def find_moved(path: str, marks: Sequence[Mark], base: Base, new: Snapshot) -> Found:
    """Find the file to which upstream moved `path`. `marks` contains the old file's line hashes.

    Only files whose paths are new since `base` are considered.
    """
    name = path.rsplit("/", 1)[-1]
    fresh = [item for item in new.paths() if path_mark(item) not in base.known]
    named = sorted(item for item in fresh if item.rsplit("/", 1)[-1] == name)
    match = _best(marks, named, new)
    if match.path is None and not match.note:
        others = sorted(
            set(fresh).difference(named), key=lambda item: (_kind(item) != _kind(name), item)
        )
        same = [item for item in others if _kind(item) == _kind(name)]
        match = _best(marks, same[:_READ], new)
        if match.path is None and not match.note:
            match = _best(marks, others[len(same) :][:_READ], new)
    return match


def near(path: str, base: Base, new: Snapshot) -> Iterator[tuple[str, Text]]:
    """Yield the files that may now contain lines of `path`, with their contents.

    These files have the same extension as `path`. Files in its directory come first, then files
    whose paths are new since the base.
    """
    directory = path.rpartition("/")[0]
    paths = [item for item in new.paths() if item != path and _kind(item) == _kind(path)]
    fresh = [item for item in paths if path_mark(item) not in base.known]
    siblings = [item for item in paths if item.rpartition("/")[0] == directory]
    for item in list(dict.fromkeys([*siblings, *fresh]))[:_READ]:
        blob = new.read(item)
        if blob is not None and b"\0" not in blob.data:
            yield item, Text.of(blob.data)


def _kind(path: str) -> str:
    """Return the extension of a path's file name; empty for `LICENSE` and `.bazelrc`."""
    name = path.rsplit("/", 1)[-1]
    return name.rpartition(".")[2] if "." in name[1:] else ""


def _best(marks: Sequence[Mark], paths: Sequence[str], new: Snapshot) -> Found:
    counts = Counter(marks)
    scores: list[tuple[float, str]] = []
    for path in paths:
        blob = new.read(path)
        size = blob.data.count(b"\n") if blob is not None else 0
        if blob is None or size < _LIKENESS * len(marks) - 1 or size * _LIKENESS > len(marks):
            continue  # too short or too long to have half of the lines in common
        text = Text.of(blob.data)
        both = (counts & text.counts).total()
        score = both / max(len(marks), len(text.marks), 1)
        if score >= _LIKENESS:
            scores.append((score, path))
    scores.sort(key=lambda item: (-item[0], item[1]))
    if not scores:
        return Found(None, "")
    if len(scores) > 1 and scores[0][0] - scores[1][0] < _MARGIN:
        return Found(None, f"it may be '{scores[0][1]}' or '{scores[1][1]}' now")
    return Found(scores[0][1], f"upstream moved it to '{scores[0][1]}'")
