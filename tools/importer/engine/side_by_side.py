# SPDX-License-Identifier: Apache-2.0
"""Show the patch's and upstream's versions of each conflict in two columns."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.importer.engine.outcome import FileResult
from tools.importer.engine.text import Text

_WIDEST = 60  # columns of text on each side; a longer line continues on the next row


@dataclass(frozen=True)
class Pair:
    """A row of two columns: a line of the patch and a line of upstream.

    A column is None if that side has no line in this row. `same` is true if both lines are equal.
    """

    patch: str | None
    upstream: str | None
    same: bool


def pairs_of(file: FileResult) -> tuple[Pair, ...]:
    """Return the rows to show for all of a file's conflicts, or () if it has no conflicts."""
    if file.before is None or not file.conflicts:
        return ()
    lines = Text.of(file.before.data).lines or ()
    rows: list[Pair] = []
    for region in file.conflicts:
        upstream = lines[region.ours_start : region.ours_stop]
        rows += _pairs([_text(line) for line in region.theirs], [_text(line) for line in upstream])
    return tuple(rows)


def side_by_side(pairs: Sequence[Pair]) -> list[str]:
    """Return the rows as text below a heading. `|`, `<` and `>` mark the rows that differ."""
    if not pairs:
        return []
    left = [pair.patch.expandtabs() for pair in pairs if pair.patch is not None]
    width = min(max([len("the patch"), *map(len, left)]), _WIDEST)
    out = [f"{'the patch':{width}}   upstream"]
    for pair in pairs:
        sign = " " if pair.same else "<" if pair.upstream is None else ">"
        sign = "|" if not pair.same and None not in (pair.patch, pair.upstream) else sign
        columns = zip(*_filled(_cut(pair.patch, width), _cut(pair.upstream, _WIDEST)), strict=True)
        out += [f"{mine:{width}} {sign} {theirs}".rstrip() for mine, theirs in columns]
    return out


def _pairs(patch: Sequence[str], upstream: Sequence[str]) -> Iterator[Pair]:
    matcher = difflib.SequenceMatcher(None, patch, upstream, autojunk=False)
    for tag, start, stop, low, high in matcher.get_opcodes():
        for mine, theirs in zip(*_padded(patch[start:stop], upstream[low:high]), strict=True):
            yield Pair(mine, theirs, tag == "equal")


def _padded(one: Sequence[str], two: Sequence[str]) -> tuple[list[str | None], list[str | None]]:
    size = max(len(one), len(two))
    return [*one, *[None] * (size - len(one))], [*two, *[None] * (size - len(two))]


def _filled(one: list[str], two: list[str]) -> tuple[list[str], list[str]]:
    size = max(len(one), len(two))
    return [*one, *[""] * (size - len(one))], [*two, *[""] * (size - len(two))]


def _cut(line: str | None, width: int) -> list[str]:
    text = (line or "").expandtabs()
    return [text[start : start + width] for start in range(0, len(text), width)] or [""]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
