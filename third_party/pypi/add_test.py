# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from third_party.pypi import add, fetch_wheel, lock
from third_party.pypi.lock import Lock, Package


def test_a_line_is_added_once() -> None:
    text = "# Why.\nnumpy\n"
    assert add.with_line(text, "einops", None) == "# Why.\nnumpy\n\neinops\n"
    assert add.with_line(text, "einops", "Axes.") == "# Why.\nnumpy\n\n# Axes.\neinops\n"
    assert add.with_line(text, "numpy", "Again.") == text
    with pytest.raises(add.AddError, match=r"numpy>2: there is a line 'numpy'. Edit it"):
        add.with_line(text, "numpy>2", None)


def test_an_unknown_group() -> None:
    with pytest.raises(add.AddError, match=r"--group nothing: the groups are cloud, "):
        add.add("einops", "nothing", None, {})


@pytest.mark.parametrize("option", ["einops", "einops="])
def test_a_licence_without_a_name(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["add.py", "einops", f"--licence={option}"])
    assert add.main() == 1
    assert f"--licence {option}: use NAME=SPDX" in capsys.readouterr().err


class Files:
    """The files that add.py changes, in a temporary folder, and a fake resolver and a fake PyPI."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.packages = {"a": _row("a")}
        self.metadata = "Name: a\nLicense-Expression: MIT\n"
        for name, text in {
            "requirements.in": "b\n",
            "licences.json": json.dumps({"pypi": {"b": "ISC"}}),
            "annotations.json": "{}",
        }.items():
            (folder / name).write_text(text)
        monkeypatch.setattr(lock, "REQUIREMENTS", folder / "requirements.in")
        monkeypatch.setattr(lock, "ANNOTATIONS", folder / "annotations.json")
        monkeypatch.setattr(add, "_LICENCES", folder / "licences.json")
        monkeypatch.setattr("third_party.pypi.update.own_results", self._results)
        monkeypatch.setattr(fetch_wheel, "fetch", self._fetch)

    def _results(self, upgrade: list[str], requirements: Mapping[Path, str]) -> list[object]:
        assert list(requirements) == [self.folder / "requirements.in"]
        new = Lock("", (), {"b": _row("b"), **self.packages})
        return [(self.folder / "lock.json", Lock("", (), {"b": _row("b")}), new)]

    def _fetch(self, pin: fetch_wheel.Pin, directory: Path) -> Path:
        wheel = directory / pin.filename
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("a-1.dist-info/METADATA", self.metadata)
            for name in "cdef":
                archive.writestr(f"a/{name}.py", "open(__file__)")
        return wheel

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


def _row(key: str) -> Package:
    return Package(key, "1", f"{key}-1-py3-none-any.whl", "", ())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, monkeypatch)


def test_all_files_are_written(files: Files) -> None:
    add.add("a", None, None, {})
    assert files.read("requirements.in") == "b\n\na\n"
    assert set(lock.loads(files.read("lock.json")).packages) == {"a", "b"}
    assert json.loads(files.read("licences.json")) == {"pypi": {"a": "MIT", "b": "ISC"}}
    why = "Files are opened by path in a/c.py, a/d.py, a/e.py and 1 more."
    assert json.loads(files.read("annotations.json")) == {"a": {"why": why, "zip_safe": False}}


def test_without_a_licence_nothing_is_written(files: Files) -> None:
    files.metadata = "Name: a\n"
    with pytest.raises(add.AddError, match=r"a-1-.*no licence .* add --licence a=SPDX"):
        add.add("a", None, None, {})
    assert files.read("requirements.in") == "b\n"
    assert not (files.folder / "lock.json").exists()
    add.add("a", None, None, {"a": "Zlib"})
    assert json.loads(files.read("licences.json"))["pypi"]["a"] == "Zlib"


def test_an_interrupted_run_is_continued(files: Files) -> None:
    add.add("a", None, None, {})
    (files.folder / "licences.json").write_text(json.dumps({"pypi": {"b": "ISC"}}))
    add.add("a", None, None, {})
    assert files.read("requirements.in") == "b\n\na\n"
    assert json.loads(files.read("licences.json"))["pypi"]["a"] == "MIT"


def test_the_import_test_is_a_target_of_this_room() -> None:
    build = (Path(add.__file__).parent / "BUILD").read_text()
    command = add.import_test("a")
    assert 'name = "import_test"' in build
    assert command[2] == "//third_party/pypi:import_test"
    assert 'name = "imported_package"' in build
    assert command[3] == "--//third_party/pypi:imported_package=@pypi//a"
