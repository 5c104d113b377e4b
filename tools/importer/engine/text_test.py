# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tools.importer.engine.marks import mark_of, marks_of
from tools.importer.engine.text import Text, known_lines

_NOTE = re.compile(rb"\[(\d+) lines? of v1, neither in the patch nor upstream any more\]\n")
_LINES = st.lists(st.sampled_from([b"a long line\n", b"another line\n", b")\n", b"\n", b"end\n"]))


def test_lines_that_nobody_kept_are_counted_in_one() -> None:
    lines = [
        b"known before\n",
        b"lost 1\n",
        b"\n",
        b"    )\n",
        b"lost 2\n",
        b"\n",
        b"known after\n",
    ]
    known = [line for line in lines if b"lost" not in line]
    words = {mark_of(line): line for line in known}
    assert known_lines(Text(marks_of(lines)), 0, len(lines), words, "v1") == [
        b"known before\n",
        b"[4 lines of v1, neither in the patch nor upstream any more]\n",
        b"\n",
        b"known after\n",
    ]


def test_one_line_is_one() -> None:
    (note,) = known_lines(Text(marks_of([b"lost\n"])), 0, 1, {}, "v1")
    assert note == b"[1 line of v1, neither in the patch nor upstream any more]\n"


@given(lines=_LINES, data=st.data())
def test_no_line_is_lost_from_the_count(lines: list[bytes], data: st.DataObject) -> None:
    known = data.draw(st.sets(st.sampled_from(lines or [b"\n"])))
    words = {mark_of(line): line for line in known}
    shown = known_lines(Text(marks_of(lines)), 0, len(lines), words, "v1")
    notes = [match for line in shown if (match := _NOTE.fullmatch(line))]
    assert len(shown) - len(notes) + sum(int(match[1]) for match in notes) == len(lines)
    if all(line in known for line in lines):
        assert shown == lines
