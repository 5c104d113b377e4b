# SPDX-License-Identifier: Apache-2.0
"""Enumerate all possible alignments of the old and new text of a short edit.

An alignment pairs as many old lines as possible with equal new lines, in order. The paired lines
were kept. Of several identical lines, any one may be the one that was kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.importer.engine.align import Change
from tools.importer.engine.marks import Mark

# The maximum number of cells in a table of line pairs. Filling a larger table would take more than
# a tenth of a second.
_CELLS = 200_000


@dataclass(frozen=True)
class Alignments:
    """All possible alignments of the texts `old` and `new`.

    `kept` maps the index of each old line that has the same counterpart in every alignment to the
    index of this counterpart in `new`.
    """

    old: tuple[Mark, ...]
    new: tuple[Mark, ...]
    kept: dict[int, int]
    _rest: tuple[tuple[int, ...], ...]

    def changes(self) -> Iterator[list[Change]]:
        """Yield each alignment's changes in line order. The number of alignments may be huge."""
        for places in self._places(0, 0):
            out: list[Change] = []
            position, new_position = 0, 0
            for start, new_start in [*places, (len(self.old), len(self.new))]:
                if (start, new_start) != (position, new_position):
                    out.append(Change(position, start, new_position, new_start))
                position, new_position = start + 1, new_start + 1
            yield out

    def _places(self, first: int, new_first: int) -> Iterator[list[tuple[int, int]]]:
        """Yield each alignment of old[first:] and new[new_first:] as index pairs of kept lines."""
        stack: list[tuple[int, int, list[tuple[int, int]]]] = [(first, new_first, [])]
        while stack:
            line, new_line, places = stack.pop()
            length = self._rest[line][new_line]
            if not length:
                yield places
                continue
            if self._rest[line + 1][new_line] == length:
                stack.append((line + 1, new_line, places))
            for match in range(new_line, len(self.new)):
                if self._rest[line][match] < length:
                    break
                if (
                    self.old[line] == self.new[match]
                    and self._rest[line + 1][match + 1] == length - 1
                ):
                    stack.append((line + 1, match + 1, [*places, (line, match)]))


def alignments(old: tuple[Mark, ...], new: tuple[Mark, ...]) -> Alignments | None:
    """Return the possible alignments of two short texts, or None if they are too long."""
    if len(old) * len(new) > _CELLS:
        return None
    rest = _common(old, new)
    done = _common(old[::-1], new[::-1])
    most = rest[0][0]
    kept: dict[int, int] = {}
    for index, line in enumerate(old):
        before, after = done[len(old) - index], rest[index + 1]
        size = len(new)
        if any(
            before[size - new_index] + after[new_index] == most for new_index in range(size + 1)
        ):
            continue
        places = [
            new_index
            for new_index in range(size)
            if new[new_index] == line
            and before[size - new_index] + 1 + after[new_index + 1] == most
        ]
        if len(places) == 1:
            kept[index] = places[0]
    return Alignments(old, new, kept, rest)


def _common(old: Sequence[Mark], new: Sequence[Mark]) -> tuple[tuple[int, ...], ...]:
    """Return a table of longest common subsequence lengths: [i][j] is for old[i:] and new[j:]."""
    size = len(new)
    row = (0,) * (size + 1)
    table = [row]
    for line in reversed(old):
        below, current = row, [0] * (size + 1)
        for index in range(size - 1, -1, -1):
            if line == new[index]:
                current[index] = below[index + 1] + 1
            else:
                right, down = current[index + 1], below[index]
                current[index] = right if right > down else down
        row = tuple(current)
        table.append(row)
    return tuple(reversed(table))
