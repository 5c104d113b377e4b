# SPDX-License-Identifier: Apache-2.0
"""A text file as the engine sees it: lines, their marks, and which marks stand only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.importer.apply import split_lines
from tools.importer.engine.marks import Mark, marks_of


@dataclass(frozen=True)
class Text:
    """Lines with their ends. What is only known by its marks has no lines: see `known_lines`."""

    marks: tuple[Mark, ...]
    lines: tuple[bytes, ...] | None = None

    @classmethod
    def of(cls, data: bytes) -> Text:
        lines = tuple(split_lines(data))
        return cls(marks_of(lines), lines)

    @cached_property
    def counts(self) -> Counter[Mark]:
        return Counter(self.marks)

    @property
    def data(self) -> bytes:
        assert self.lines is not None
        return b"".join(self.lines)


def known_lines(
    text: Text, start: int, stop: int, words: Mapping[Mark, bytes], label: str
) -> list[bytes]:
    """Return lines of a text by its marks, from `words`; a line that nobody kept says so."""
    if text.lines is not None:
        return list(text.lines[start:stop])
    return [
        words.get(text.marks[at])
        or b"[line %d of %s: neither in the patch nor upstream any more]\n"
        % (at + 1, label.encode())
        for at in range(start, stop)
    ]
