# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tools.importer.engine.merge import Region
from tools.importer.engine.outcome import FileResult, Outcome
from tools.importer.engine.side_by_side import Pair, pairs_of, side_by_side
from tools.importer.snapshot import Blob


def _file(upstream: bytes, patch: tuple[bytes, ...], start: int, stop: int) -> FileResult:
    region = Region(0, 1, start, stop, patch, True)
    blob = Blob(upstream)
    return FileResult("a", "a", Outcome.SUSPECTED, blob, blob, conflicts=(region,))


def test_equal_lines_stand_next_to_each_other() -> None:
    file = _file(b"0\nif x:\n\treturn 2\n9\n", (b"if x:\n", b"    y\n", b"\treturn 1\n"), 1, 3)
    pairs = pairs_of(file)
    assert pairs[0] == Pair("if x:", "if x:", True)
    assert side_by_side(pairs) == [
        "the patch          upstream",
        "if x:              if x:",
        "    y            |         return 2",
        "        return 1 <",
    ]


def test_a_side_may_have_no_lines() -> None:
    pairs = pairs_of(_file(b"0\n1\n", (), 0, 2))
    assert [pair.upstream for pair in pairs] == ["0", "1"]
    assert side_by_side(pairs)[1:] == ["          > 0", "          > 1"]
    assert side_by_side(()) == []


def test_a_long_line_continues_below() -> None:
    line = "x" * 70
    rows = side_by_side(pairs_of(_file(b"y\n", (line.encode(),), 0, 1)))
    assert rows[1:] == [f"{'x' * 60} | y", f"{'x' * 10}{' ' * 51}|"]
