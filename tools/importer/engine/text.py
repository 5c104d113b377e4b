# SPDX-License-Identifier: Apache-2.0
"""A text file for the engine: its lines, their marks, and the count of each mark."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.importer.apply import split_lines
from tools.importer.engine.marks import Mark, marks_of

# Shorter lines, such as `)` and `else:`, identify nothing.
_TELLING = 6


@dataclass(frozen=True)
class Text:
    """Lines with their ends. A text known only by its marks has no lines: see `known_lines`."""

    marks: tuple[Mark, ...]
    lines: tuple[bytes, ...] | None = None

    @classmethod
    def of(cls, data: bytes) -> Text:
        return _text_of(data)

    @cached_property
    def counts(self) -> Counter[Mark]:
        return Counter(self.marks)

    @property
    def data(self) -> bytes:
        assert self.lines is not None
        return b"".join(self.lines)


# A file is merged, judged and rendered, and is the next patch's base: the cache saves three passes.
@functools.lru_cache(maxsize=8)
def _text_of(data: bytes) -> Text:
    lines = tuple(split_lines(data))
    return Text(marks_of(lines), lines)


def known_lines(
    text: Text, start: int, stop: int, words: Mapping[Mark, bytes], label: str
) -> list[bytes]:
    """Return lines of a text by looking up its marks in `words`.

    A run of unknown lines becomes one line that counts them and names `label`. Insignificant lines
    between unknown ones, such as a blank line, are counted with them.
    """
    if text.lines is not None:
        return list(text.lines[start:stop])
    out: list[bytes] = []
    hidden = 0  # lines that the next note counts
    folded: list[bytes] = []  # insignificant known lines after them
    for mark in text.marks[start:stop]:
        word = words.get(mark)
        if word is None:
            hidden += len(folded) + 1
            folded = []
        elif hidden and len(word.strip()) < _TELLING:
            folded.append(word)
        else:
            out += [*_hidden(hidden, label), *folded, word]
            hidden, folded = 0, []
    return [*out, *_hidden(hidden, label), *folded]


def _hidden(count: int, label: str) -> list[bytes]:
    lines = "1 line" if count == 1 else f"{count} lines"
    note = f"[{lines} of {label}, neither in the patch nor upstream any more]\n"
    return [note.encode("utf-8", "surrogateescape")] if count else []
