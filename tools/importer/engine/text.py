# SPDX-License-Identifier: Apache-2.0
"""A text file as the engine sees it: its lines, their hashes, and the count of each hash."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.importer.apply import split_lines
from tools.importer.engine.marks import Mark, marks_of

# Lines shorter than this, such as `)` or `else:`, occur everywhere.
_SIGNIFICANT = 6


def is_significant(line: bytes) -> bool:
    """Return whether a line is long enough to show where it comes from."""
    return len(line.strip()) >= _SIGNIFICANT


@dataclass(frozen=True)
class Text:
    """A text's lines with their endings. `lines` is None if only their hashes are known."""

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


# Without the cache, a file would be split into lines four times: to merge it, to check the result,
# to render the patch, and to serve as the base of the next patch.
@functools.lru_cache(maxsize=8)
def _text_of(data: bytes) -> Text:
    lines = tuple(split_lines(data))
    return Text(marks_of(lines), lines)


def known_lines(
    text: Text, start: int, stop: int, words: Mapping[Mark, bytes], label: str
) -> list[bytes]:
    """Return text.lines[start:stop]. If only their hashes are known, look up the lines in `words`.

    One placeholder line replaces each run of unknown lines. It states their number and `label`.
    Known lines within the run that are not significant, such as blank lines, are also counted.
    """
    if text.lines is not None:
        return list(text.lines[start:stop])
    out: list[bytes] = []
    hidden = 0  # number of lines that the next placeholder replaces
    folded: list[bytes] = []  # insignificant lines after the unknown ones
    for mark in text.marks[start:stop]:
        word = words.get(mark)
        if word is None:
            hidden += len(folded) + 1
            folded = []
        elif hidden and not is_significant(word):
            folded.append(word)
        else:
            out += [*_hidden(hidden, label), *folded, word]
            hidden, folded = 0, []
    return [*out, *_hidden(hidden, label), *folded]


def _hidden(count: int, label: str) -> list[bytes]:
    lines = "1 line" if count == 1 else f"{count} lines"
    note = f"[{lines} of {label}, neither in the patch nor upstream any more]\n"
    return [note.encode("utf-8", "surrogateescape")] if count else []
