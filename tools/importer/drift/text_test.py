# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import re
from pathlib import Path

from tools.importer.drift import (
    Cell,
    FileCell,
    Release,
    Row,
    Table,
    Target,
    measure,
    to_terminal,
    to_text,
)
from tools.importer.drift.sample import upstream, write_series
from tools.importer.engine import Outcome, read_base

_CODES = re.compile(r"\x1b\[[0-9;]*m")


def _table(tmp_path: Path) -> Table:
    series = write_series(tmp_path)
    targets = [Target(f"--tag {name}", upstream(name)) for name in ("v1", "v1.1")]
    targets.append(Target("--tag v2", upstream("v2", b=None)))
    return measure(series, read_base(series.root), targets)


def test_the_whole_text(tmp_path: Path) -> None:
    assert to_text(_table(tmp_path)) == (
        "3 patches of v1  v1     v1.1   v2\n"
        "---------------  -----  -----  ---------\n"
        "a.patch          clean  clean  clean\n"
        "b.patch          clean  clean  file gone\n"
        "c.patch          clean  clean  clean\n"
        "\n"
        "v1: 3 clean\n"
        "v1.1: 3 clean\n"
        "v2: 2 clean, 1 file gone\n"
        "\n"
        "1 needs you:\n"
        "  v2: b.patch: file gone in b.py: upstream has no such file now. Find the file that"
        " replaces it upstream; `import.py --tag v2` stops there: make the change in the new file, or"
        " `skip`\n"
    )


def test_a_terminal_gets_colors_and_the_same_words(tmp_path: Path) -> None:
    table = _table(tmp_path)
    shown = to_terminal(table, width=200)
    assert "\x1b[1;35mfile gone\x1b[0m" in shown
    assert _CODES.sub("", shown).split() == [
        word for word in to_text(table).split() if not word.startswith("---")
    ]


def test_a_narrow_terminal_folds_and_loses_nothing(tmp_path: Path) -> None:
    lines = _CODES.sub("", to_terminal(_table(tmp_path), width=40)).splitlines()
    assert max(map(len, lines)) <= 40
    assert "make the change in the new file" in " ".join(" ".join(lines).split())


def test_a_terminal_obeys_nothing_that_upstream_wrote() -> None:
    note = "line '\x1b]0;owned\x07\u202etxt.exe'\r\n\ud800"
    file = FileCell("a\x1b[2J.py", "a\x1b[2J.py", Outcome.CONFLICT, note)
    row = Row("a.patch", "s", "o", "r", "u", (Cell(Outcome.CONFLICT, note, (file,)),))
    table = Table("v1", "d", None, (Release("v\x1b[31m2", None, "--tag v2", {}),), (row,))
    for text in (to_text(table), to_terminal(table, width=120)):
        plain = _CODES.sub("", text).encode().decode()
        assert not set(plain) & set("\x1b\x07\r\u202e")
        assert "\\x1b]0;owned\\x07\\u202etxt.exe" in "".join(plain.split())
