# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import pytest

from tools.importer.drift import Table, Target, attention, measure
from tools.importer.drift.sample import PartialSnapshot, function, upstream, write_series
from tools.importer.engine import Decision, Outcome, Resolved, read_base
from tools.importer.errors import UserError
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Blob, Snapshot

_OURS = "    return 'said by the patch'\n"


def _measure(tmp_path: Path, *snapshots: PartialSnapshot) -> Table:
    series = write_series(tmp_path)
    targets = (Target(f"--tag {snapshot.label}", snapshot) for snapshot in snapshots)
    return measure(series, read_base(series.root), targets)


def _outcomes(table: Table, column: int = 0) -> list[Outcome]:
    return [row.cells[column].outcome for row in table.rows]


def _functions(letter: str, **bodies: str) -> str:
    return "".join(
        function(f"{letter}_{number}", bodies[f"f{number}"])
        if f"f{number}" in bodies
        else function(f"{letter}_{number}")
        for number in range(3)
    )


def test_the_base_itself_is_clean(tmp_path: Path) -> None:
    table = _measure(tmp_path, upstream("v1"))
    assert _outcomes(table) == [Outcome.CLEAN] * 3
    assert not table.stops
    assert attention(table) == []


def test_each_release_has_its_own_outcomes(tmp_path: Path) -> None:
    moved = function("a_new") + _functions("a")
    merged = _functions("b", f0="    return 'other words'\n").replace(
        "# what b_1 is for", "# what b_1 is for by now"
    )
    conflict = _functions("c", f1="    raise SystemExit('no more')\n")
    v2 = upstream("v2", a=moved, b=merged, c=conflict)
    v3 = upstream("v3", a=_functions("a", f1=_OURS), b=None)
    v3_tweak = _functions("c", f1=_OURS.replace("the patch", "the patch!"))
    v4 = upstream("v4", c=v3_tweak)
    table = _measure(tmp_path, v2, v3, v4)
    assert _outcomes(table, 0)[0] is Outcome.OFFSET
    assert _outcomes(table, 0)[2] is Outcome.CONFLICT
    assert _outcomes(table, 1) == [Outcome.LANDED, Outcome.FILE_GONE, Outcome.CLEAN]
    assert _outcomes(table, 2) == [Outcome.CLEAN, Outcome.CLEAN, Outcome.SUSPECTED]
    assert table.counts(1) == {Outcome.CLEAN: 1, Outcome.LANDED: 1, Outcome.FILE_GONE: 1}
    assert table.stops
    (file,) = table.rows[2].cells[2].files
    assert "+    return 'said by the patch!'\n" in file.inner


def test_what_the_origin_does_not_hold_is_not_gone(tmp_path: Path) -> None:
    everything = upstream("v2")
    files = {path: blob for path in everything.paths() if (blob := everything.read(path))}
    wheel = PartialSnapshot("v2", files, left_out=["b.py"])
    assert _outcomes(_measure(tmp_path, wheel)) == [
        Outcome.CLEAN,
        Outcome.NOT_APPLICABLE,
        Outcome.CLEAN,
    ]


def test_only_touched_files_are_read(tmp_path: Path) -> None:
    release = upstream("v2", a=function("a_new") + _functions("a"))
    _measure(tmp_path, release)
    assert set(release.reads) == {"a.py", "b.py", "c.py"}


def test_a_line_for_each_patch_that_needs_a_person(tmp_path: Path) -> None:
    conflict = _functions("c", f1="    raise SystemExit('no more')\n")
    table = _measure(tmp_path, upstream("v2", b=None, c=conflict))
    gone, clash = attention(table)
    assert (gone.patch, clash.patch) == ("b.patch", "c.patch")
    assert gone.line.startswith("v2: b.patch: file gone in b.py: upstream has no such file now. ")
    assert clash.line.startswith("v2: c.patch: conflict in c.py: both changed line ")
    assert "`import.py --tag v2`" in clash.line
    assert "\n" not in clash.line


def _ruled(tmp_path: Path) -> Series:
    """Return the series, with a rule that generates its first patch."""
    file = write_series(tmp_path).root / "a.patch"
    file.write_text(file.read_text().replace("Owner:", "Rewrite: some-rule\nOwner:", 1))
    return load_series(file.parent)


def _rule(series: Series, snapshot: Snapshot) -> dict[str, Decision]:
    blob = snapshot.read("a.py")
    assert blob is not None
    text = blob.data.decode().replace(function("a_1"), function("a_1", _OURS))
    return {"a.patch": Resolved({"a.py": Blob(text.encode())})}


def test_what_a_rule_makes_is_made_anew_not_merged(tmp_path: Path) -> None:
    series = _ruled(tmp_path)
    moved = upstream("v2", a=_functions("a")[len(function("a_0")) :] + function("a_0"))
    targets = [Target(f"--tag {each.label}", each) for each in (upstream("v1"), moved)]
    table = measure(series, read_base(series.root), targets, remake=_rule)
    assert [_outcomes(table, column)[0] for column in range(2)] == [
        Outcome.CLEAN,
        Outcome.RESOLVED,
    ]
    assert table.rows[0].cells[1].note == "generated again by its rule"


def test_a_rule_that_refuses_the_tree_needs_a_person(tmp_path: Path) -> None:
    def refuse(series: Series, snapshot: Snapshot) -> dict[str, Decision]:
        raise UserError("rewrite some-rule, v2: a.py has 2, expected 1. Look at them")

    series = _ruled(tmp_path)
    targets = [Target("--tag v2", upstream("v2"))]
    table = measure(series, read_base(series.root), targets, remake=refuse)
    assert _outcomes(table) == [Outcome.CONFLICT, Outcome.CLEAN, Outcome.CLEAN]
    (item,) = attention(table)
    assert item.line == (
        "v2: a.patch: conflict: rewrite some-rule, v2: a.py has 2, expected 1. Look at them"
    )


def test_a_release_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="^v2: named twice. Name each release once$"):
        _measure(tmp_path, upstream("v2"), upstream("v2"))


def test_a_series_that_does_not_fit_its_base_is_refused(tmp_path: Path) -> None:
    series = write_series(tmp_path)
    other = write_series(tmp_path / "other")
    wrong = read_base(other.root)
    files = {path: file for path, file in wrong.files.items() if path != "b.py"}
    broken = type(wrong)(wrong.label, wrong.commit, wrong.pin, files, wrong.known)
    with pytest.raises(UserError, match="b.patch: b.py: the recorded base has no such file"):
        measure(series, broken, [Target("--tag v2", upstream("v2"))])
