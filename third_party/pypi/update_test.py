# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from third_party.pypi import update
from third_party.pypi.lock import Lock, Package


def _lock(**versions: str) -> Lock:
    rows = {key: Package(key, version, "", "", ()) for key, version in versions.items()}
    return Lock("", (), rows)


def test_locked_versions_hold_unless_freed() -> None:
    old = _lock(a="1", b="2", c="3")
    assert list(update._constraints(old, ["a", "c==4"], [])) == ["a==1\n", "b==2\n"]
    assert list(update._constraints(old, ["a", "c"], ["b"])) == ["a==1\n", "c==3\n"]
    assert list(update._constraints(old, ["a"], ["*"])) == []
    assert list(update._constraints(None, ["a"], [])) == []


def test_changes_are_told_one_a_line() -> None:
    lines = update.changes(_lock(a="1", b="1", c="1"), _lock(b="2", c="1", d="1"))
    assert lines == ["a: 1 -> -", "b: 1 -> 2", "d: - -> 1"]
    assert update.changes(_lock(a="1"), _lock(a="1")) == ["No wheel changed."]


def test_a_group_lacks_what_the_lock_has() -> None:
    assert update._less(_lock(a="1", b="2"), _lock(b="3", c="1")) == _lock(a="1")


def test_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text("old")
    update.write(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("third_party.pypi.target.PYTHON", (3, 99))
    with pytest.raises(update.UpdateError, match=r"run this with CPython 3.11 on Linux x86-64"):
        update.resolve(None, [])
