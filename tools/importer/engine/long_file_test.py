# SPDX-License-Identifier: Apache-2.0
"""Files with thousands of lines are aligned piece by piece, and still merge correctly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.importer.engine import align
from tools.importer.engine.marks import marks_of
from tools.importer.engine.scenario import make_scenario, over


def _file(lines: int, numbers: int) -> list[str]:
    chance = random.Random(1)
    return [f"    value_{chance.randrange(numbers)} = here()\n" for _ in range(lines)]


def _edited(lines: Sequence[str]) -> list[str]:
    """Remove some lines, insert some, and move a range of lines down."""
    chance = random.Random(2)
    out = list(lines)
    for number in range(0, len(out), 97):
        index = chance.randrange(len(out))
        out[index : index + number % 3] = [f"    new_{number} = there()\n"] * (number % 2)
    moved = out[300:340]
    return [*out[:300], *out[340:900], *moved, *out[900:]]


@pytest.mark.parametrize("numbers", [10**9, 40])
def test_cuts_change_no_alignment(monkeypatch: pytest.MonkeyPatch, numbers: int) -> None:
    """Align a file without repeated lines, and one in which only runs of lines are unique."""
    old = _file(3000, numbers)
    new = _edited(old)
    texts = [marks_of(line.encode() for line in lines) for lines in (old, new)]
    cut = align.align(texts[0], texts[1])
    aligned = sum(match.length for match in cut)
    monkeypatch.setattr(align, "_LONG", 10**9)
    uncut = align.align(texts[0], texts[1])
    assert aligned >= sum(match.length for match in uncut) * 0.99
    assert all(
        texts[0][match.old : match.old + match.length]
        == texts[1][match.new : match.new + match.length]
        for match in cut
    )
    if numbers > 10**6:
        assert cut == uncut


def test_a_long_file_without_unique_lines_is_merged(tmp_path: Path) -> None:
    lines = _file(6000, 40)
    patched = [*lines[:3000], "    patched = here()\n", *lines[3000:]]
    new = ["    first = new()\n", *lines[:5500], "    last = new()\n", *lines[5501:]]
    scenario = make_scenario(tmp_path, {"a": "".join(lines)}, {"p": {"a": "".join(patched)}})
    carried = scenario.to(over({}, {"a": "".join(new)}))
    assert [result.outcome.value for result in carried.results] == ["offset"]
    expected = [*new[:3001], "    patched = here()\n", *new[3001:]]
    assert carried.files == over({}, {"a": "".join(expected)})
