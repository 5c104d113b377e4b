# SPDX-License-Identifier: Apache-2.0
"""Enumerate all readings of a short edit: which lines of the old text the new text has kept.

A reading keeps as many lines as possible. Among equal lines, any of them may be the kept one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.importer.engine.align import Change
from tools.importer.engine.marks import Mark

# Tables with more cells are skipped: one would take a tenth of a second.
_CELLS = 200_000


@dataclass(frozen=True)
class Readings:
    """The readings of `new` as an edit of `old`.

    `kept` maps each old line to its new index, if every reading keeps it there.
    """

    old: tuple[Mark, ...]
    new: tuple[Mark, ...]
    kept: dict[int, int]
    _rest: tuple[tuple[int, ...], ...]

    def changes(self) -> Iterator[list[Change]]:
        """Yield each reading as its changes, in order; their number may be huge."""
        for places in self._places(0, 0):
            out: list[Change] = []
            at, new_at = 0, 0
            for start, new_start in [*places, (len(self.old), len(self.new))]:
                if (start, new_start) != (at, new_at):
                    out.append(Change(at, start, new_at, new_start))
                at, new_at = start + 1, new_start + 1
            yield out

    def _places(self, first: int, new_first: int) -> Iterator[list[tuple[int, int]]]:
        """Yield the kept lines of each reading of the two tails, as pairs of indices."""
        stack: list[tuple[int, int, list[tuple[int, int]]]] = [(first, new_first, [])]
        while stack:
            at, new_at, places = stack.pop()
            left = self._rest[at][new_at]
            if not left:
                yield places
                continue
            if self._rest[at + 1][new_at] == left:
                stack.append((at + 1, new_at, places))
            for place in range(new_at, len(self.new)):
                if self._rest[at][place] < left:
                    break
                if self.old[at] == self.new[place] and self._rest[at + 1][place + 1] == left - 1:
                    stack.append((at + 1, place + 1, [*places, (at, place)]))


def readings(old: tuple[Mark, ...], new: tuple[Mark, ...]) -> Readings | None:
    """Return the readings of two short texts; None if they are too long."""
    if len(old) * len(new) > _CELLS:
        return None
    rest = _common(old, new)
    done = _common(old[::-1], new[::-1])
    most = rest[0][0]
    kept: dict[int, int] = {}
    for at, line in enumerate(old):
        before, after = done[len(old) - at], rest[at + 1]
        size = len(new)
        if any(before[size - place] + after[place] == most for place in range(size + 1)):
            continue
        places = [
            place
            for place in range(size)
            if new[place] == line and before[size - place] + 1 + after[place + 1] == most
        ]
        if len(places) == 1:
            kept[at] = places[0]
    return Readings(old, new, kept, rest)


def _common(old: Sequence[Mark], new: Sequence[Mark]) -> tuple[tuple[int, ...], ...]:
    """Return the longest common subsequence's length of old[at:] and new[place:], by both."""
    size = len(new)
    row = (0,) * (size + 1)
    table = [row]
    for line in reversed(old):
        below, current = row, [0] * (size + 1)
        for place in range(size - 1, -1, -1):
            if line == new[place]:
                current[place] = below[place + 1] + 1
            else:
                right, down = current[place + 1], below[place]
                current[place] = right if right > down else down
        row = tuple(current)
        table.append(row)
    return tuple(reversed(table))
