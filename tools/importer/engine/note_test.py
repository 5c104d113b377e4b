# SPDX-License-Identifier: Apache-2.0
"""Test the notes that say where upstream's tree has the lines of a conflicting patch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.importer.engine.outcome import Outcome, PatchResult
from tools.importer.engine.scenario import make_scenario, over

_TEXT = "".join(f"line {number}\n" for number in range(60))
_FUNCTION = "def wanted():\n    one = first()\n    two = second()\n    return one + two\n\n\n"
_PATCHED = _FUNCTION.replace("second()", "second(patched=True)")


def _stopped(
    root: Path, old: Mapping[str, str], patch: Mapping[str, str], new: Mapping[str, str | None]
) -> PatchResult:
    scenario = make_scenario(root, {**old, "other": "here\n"}, {"p": dict(patch)})
    stopped = scenario.to(over(scenario.old, new)).stopped
    assert stopped is not None
    return stopped


@pytest.mark.parametrize(
    ("patch", "upstream", "note"),
    [
        ({20: "line twenty"}, {20: "line twenty-one"}, "upstream changed line 21 much like it"),
        ({20: "line twenty"}, {20: "something else altogether"}, "both changed line 21"),
        (
            {20: "line twenty", 40: "line forty"},
            {20: "completely other", 40: "nothing of the kind"},
            "both changed lines 21 and 41",
        ),
        ({20: "line twenty"}, {20: None}, "upstream took out the lines that it changes, before line 21"),
        (
            {20: "line twenty\nline 20 and a half"},
            {20: "line twenty\nwholly different"},
            "both changed line 21",
        ),
        (
            {20: "line twenty\nline 20 and a half\nline 20 and more"},
            {20: "line twenty\nline 20 and a half\nwholly different"},
            "upstream has 2 of its 3 new lines; they differ at line 21",
        ),
    ],
)  # fmt: skip
def test_what_was_found(
    tmp_path: Path, patch: dict[int, str], upstream: dict[int, str | None], note: str
) -> None:
    def text(changes: Mapping[int, str | None]) -> str:
        lines = [changes.get(number, f"line {number}") for number in range(60)]
        return "".join(f"{line}\n" for line in lines if line is not None)

    stopped = _stopped(tmp_path, {"a": _TEXT}, {"a": text(patch)}, {"a": text(upstream)})
    assert stopped.note == note


def test_lines_that_moved_within_the_file(tmp_path: Path) -> None:
    old, patched = (_TEXT + function + "last = 1\n" for function in (_FUNCTION, _PATCHED))
    new = "first = 0\n" + _FUNCTION.replace("return", "yield") + _TEXT + "class Other:\n    pass\n"
    stopped = _stopped(tmp_path, {"a.py": old}, {"a.py": patched}, {"a.py": new})
    assert stopped.outcome is Outcome.CONFLICT
    assert stopped.files[0].note.endswith("; its lines are at line 2 now")


@pytest.mark.parametrize("gone", [False, True])
def test_lines_that_moved_to_another_file_of_the_patch(tmp_path: Path, gone: bool) -> None:
    old = {"a.py": _TEXT + _FUNCTION + "last = 1\n", "b.py": "bee = 1\n" + _TEXT}
    patch = {"a.py": _TEXT + _PATCHED + "last = 1\n", "b.py": "bee = 2\n" + _TEXT}
    new = {
        "a.py": None if gone else _TEXT + "from b import wanted\nlast = 1\n",
        "b.py": "bee = 1\n" + _FUNCTION + _TEXT,
    }
    stopped = _stopped(tmp_path, old, patch, new)
    assert stopped.files[0].outcome is (Outcome.FILE_GONE if gone else Outcome.CONFLICT)
    assert stopped.files[0].note.endswith("; its lines are in 'b.py' at line 2 now")


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("path", ["b.py", "deep/new.py"], ids=["sibling", "new"])
def test_lines_that_moved_to_a_file_outside_the_patch(
    tmp_path: Path, path: str, gone: bool
) -> None:
    old = {"a.py": _TEXT + _FUNCTION + "last = 1\n", "b.py": "bee = 1\n"}
    patch = {"a.py": _TEXT + _PATCHED + "last = 1\n"}
    new = {
        "a.py": None if gone else _TEXT + "from b import wanted\nlast = 1\n",
        path: "bee = 1\n" + _FUNCTION,
    }
    stopped = _stopped(tmp_path, old, patch, new)
    assert stopped.files[0].note.endswith(f"; its lines are in '{path}' at line 2 now")


def test_lines_that_two_files_outside_the_patch_have_are_not_pointed_to(tmp_path: Path) -> None:
    old = {"a.py": _TEXT + _FUNCTION + "last = 1\n"}
    patch = {"a.py": _TEXT + _PATCHED + "last = 1\n"}
    new = {"a.py": _TEXT + "last = 1\n", "b.py": _FUNCTION, "c.py": _FUNCTION}
    assert "its lines are" not in _stopped(tmp_path, old, patch, new).files[0].note


def test_lines_that_stand_at_two_places_are_not_pointed_to(tmp_path: Path) -> None:
    old = {"a.py": _TEXT + _FUNCTION + "last = 1\n", "b.py": "bee = 1\n" + _TEXT}
    patch = {"a.py": _TEXT + _PATCHED + "last = 1\n", "b.py": "bee = 2\n" + _TEXT}
    new = {"a.py": _TEXT + "last = 1\n", "b.py": _FUNCTION + _TEXT + "bee = 1\n" + _FUNCTION}
    assert "its lines are" not in _stopped(tmp_path, old, patch, new).files[0].note


@pytest.mark.parametrize(
    ("old", "new"),
    [("LICENSE", "COPYING"), ("run", "tool/start"), ("run", "run.sh"), (".rc", "config"), ("a.h", "a.hpp")],
)  # fmt: skip
def test_a_file_of_any_name_is_followed(tmp_path: Path, old: str, new: str) -> None:
    patched = _TEXT.replace("line 20\n", "line twenty\n")
    scenario = make_scenario(tmp_path, {old: _TEXT, "z": "z\n"}, {"p": {old: patched}})
    carried = scenario.to(over({}, {new: _TEXT, "z": "z\n", "n.py": "x\n" * 50}))
    assert [result.outcome for result in carried.results] == [Outcome.OFFSET]
    assert {path for path, blob in carried.files.items() if blob} == {new}
