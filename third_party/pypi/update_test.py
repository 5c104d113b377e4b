# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest

from third_party.pypi import update
from third_party.pypi.host_pip import Pip
from third_party.pypi.lock import Lock, Package
from third_party.pypi.resolution import Locks


def _lock(**versions: str) -> Lock:
    rows = {key: Package(key, version, "", "", ()) for key, version in versions.items()}
    return Lock("", (), rows)


def test_changes_are_told_one_a_line() -> None:
    lines = update.changes(_lock(a="1", b="1", c="1"), _lock(b="2", c="1", d="1"))
    assert lines == ["a: 1 -> -", "b: 1 -> 2", "d: - -> 1"]
    assert update.changes(_lock(a="1"), _lock(a="1")) == ["No wheel changed."]


def test_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text("old")
    update.write(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("third_party.pypi.target.PYTHON", (3, 99))
    with pytest.raises(update.UpdateError, match=r"run this with CPython 3.11 on Linux x86-64"):
        update.resolve(Locks(None, {}), [])


def test_an_upgrade_of_an_unknown_package_is_refused() -> None:
    with pytest.raises(update.UpdateError, match="--upgrade nmpy: no lock has that package"):
        update.resolve(update.read_locks(), ["nmpy"])


def test_a_file_of_another_workspace_gets_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("third_party.pypi.target.PYTHON", sys.version_info[:2])
    monkeypatch.setattr("third_party.pypi.host_pip.find", lambda: Pip(("pip",)))
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    (tmp_path / "mine.in").write_text("numpy  # ours\n")
    ((path, before, after),) = update.extra_results([Path("mine.in")], [])
    assert path == tmp_path / "mine.lock.json"
    assert before is None
    assert after.packages == {}  # numpy is already in torch_google's lock.
    assert after.requirements == ("numpy",)
    assert list(after.resolved_with) == ["numpy"]


def test_a_file_with_another_suffix_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("third_party.pypi.target.PYTHON", sys.version_info[:2])
    with pytest.raises(update.UpdateError, match=r"mine.txt: its name does not end in \.in"):
        update.extra_results([Path("mine.txt")], [])


def test_bazel_run_without_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", "/other")
    with pytest.raises(update.UpdateError, match=r"no file is named. For your own packages, name"):
        update.own_results([])


def test_nothing_to_do_asks_neither_pip_nor_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing changed, but pip was asked")

    monkeypatch.setattr("third_party.pypi.pip_report.ask", refuse)
    monkeypatch.setattr("third_party.pypi.fetch_wheel.fetch", refuse)
    monkeypatch.setattr("third_party.pypi.target.PYTHON", sys.version_info[:2])
    monkeypatch.setattr("third_party.pypi.host_pip.find", lambda: Pip(("pip",)))
    locks = update.read_locks()
    assert update.resolve(locks, []) == locks
