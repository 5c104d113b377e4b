# SPDX-License-Identifier: Apache-2.0
"""Test that the build and the importer create the same tree from a pin."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from third_party.imported.unpack import main as unpack
from third_party.imported.unpack import requirements
from tools.importer.builders import builder_of
from tools.importer.engine import Change, base_files, record_base, render_patch
from tools.importer.errors import UserError
from tools.importer.origins import OriginSnapshot, resolve
from tools.importer.origins.origin_fixtures import (
    Lines,
    commit_files,
    make_pure_wheel,
    make_sdist,
    write_project,
)
from tools.importer.project import Project
from tools.importer.report import JsonReport
from tools.importer.series import load_series
from tools.importer.snapshot import Blob
from tools.importer.tree_pin import pin_bytes, read_tree_pin

_A = b"a = 1\nb = 2\nc = 3\n"
_PACKAGE = {"some/__init__.py": b"", "some/a.py": _A, "some/data.bin": b"\0\1"}
_SOURCES = {f"src/{path}": data for path, data in _PACKAGE.items()} | {"tests/t.py": b"t\n"}
_HEADER = b"""Subject: Say two
Owner: us
Reason: build
Upstream: None yet
Extension-point-considered: None
Test: t.py::t
"""


@pytest.fixture(autouse=True)
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONSTRAINT", "")


def _tree(project: Project, kind: str, root: Path) -> OriginSnapshot:
    origin = kind
    if kind == "sdist":
        make_sdist(root / "index", "some-lib", "1.0", _SOURCES)
    elif kind == "wheel":
        make_pure_wheel(root / "index", "some-lib", "1.0", _PACKAGE)
    elif kind == "tarball":
        origin = str(make_sdist(root, "some-lib", "1.0", _SOURCES))
    else:
        commit_files(root / "git", _SOURCES, "v1.0")
        origin = str(root / "git")
        if kind == "tree":
            (root / "git/.git").rename(root / "dot-git")
    return resolve(project, Lines(), tag="v1.0", origin=origin)


def _pinned(root: Path, kind: str) -> Project:
    """Create a project with one patch, pinned to release 1.0 from an origin of the given kind."""
    project = write_project(
        root / "workspace",
        "some_lib",
        origins={"sdist": {"project": "some-lib"}, "wheel": {"project": "some-lib"}},
        **({} if kind == "wheel" else {"include": ["some/**"], "move": {"src/": ""}}),
    )
    tree = _tree(project, kind, root)
    directory = project.series_of("v1.0")
    directory.mkdir(parents=True)
    after = Blob(_A.replace(b"2", b"two"))
    patch = render_patch(_HEADER, [Change("some/a.py", "some/a.py", Blob(_A), after)])
    (directory / "say-two.patch").write_bytes(patch)
    (directory / "series").write_text("say-two.patch\n")
    for name, data in base_files(record_base(load_series(directory), tree)).items():
        (directory / name).write_bytes(data)
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    pin = builder_of(project).after_import(project, tree, files, JsonReport(io.StringIO()))
    assert pin is not None
    project.pin.write_bytes(pin_bytes(pin))
    return project


def _unpack(project: Project, out: Path) -> int:
    out.mkdir(exist_ok=True)
    return unpack([f"--workspace={project.workspace}", f"--project={project.name}", f"--out={out}"])


@pytest.mark.parametrize(
    "kind",
    [pytest.param("sdist", marks=pytest.mark.full), "wheel", "tarball", "git", "tree"],
)
def test_the_build_makes_the_tree_that_the_importer_pinned(tmp_path: Path, kind: str) -> None:
    project = _pinned(tmp_path, kind)
    assert _unpack(project, tmp_path / "out") == 0
    site = tmp_path / "out/site"
    assert (site / "some/a.py").read_bytes() == _A.replace(b"2", b"two")
    assert not (site / "tests").exists()
    assert len(list(site.glob("*.dist-info/METADATA"))) == 1
    info = json.loads((tmp_path / "out/SOURCE_INFO.json").read_text())
    assert info["tree"] == read_tree_pin(project.pin).tree_hash
    rebuilt = builder_of(project).rebuild(project, None, Lines())
    assert (rebuilt.differences, rebuilt.tree_hash) == ((), info["tree"])


def test_the_build_refuses_another_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = _pinned(tmp_path, "tarball")
    patch = project.series_of("v1.0") / "say-two.patch"
    patch.write_bytes(patch.read_bytes().replace(b"two", b"2.0"))
    assert _unpack(project, tmp_path / "out") == 1
    err = capsys.readouterr().err
    assert "pin.json: tree_hash is" in err
    assert "refresh --base" in err
    (difference,) = builder_of(project).rebuild(project, None, Lines()).differences
    assert "tree_hash is" in str(difference)


@pytest.mark.full
def test_the_build_refuses_other_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = _pinned(tmp_path, "sdist")
    make_sdist(tmp_path / "index", "some-lib", "1.0", {**_SOURCES, "src/some/b.py": b""})
    assert _unpack(project, tmp_path / "out") == 1
    assert "the pin says" in capsys.readouterr().err


def test_a_build_file_of_upstream_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_SOURCES, "src/some/BUILD", b"")
    assert _unpack(_pinned(tmp_path, "tarball"), tmp_path / "out") == 1
    assert "some/BUILD makes its folder a Bazel package" in capsys.readouterr().err


@pytest.mark.full
def test_a_second_import_keeps_the_release_before(tmp_path: Path) -> None:
    project = _pinned(tmp_path, "sdist")
    make_sdist(tmp_path / "index", "some-lib", "1.1", _SOURCES)
    tree = resolve(project, Lines(), tag="v1.1")
    first = read_tree_pin(project.pin)
    files = {"series": b""}
    for _ in range(2):
        pin = builder_of(project).after_import(project, tree, files, Lines())
        assert pin is not None
        project.pin.write_bytes(pin_bytes(pin))
        assert read_tree_pin(project.pin).previous == {
            "tag": "v1.0",
            "origin": first.origin,
            "tree_hash": first.tree_hash,
        }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"pin\.json: JSONDecodeError"),
        ("[]", "not a JSON object"),
        ('{"tag": 1}', "key 'tag' is 1, not a text"),
        ('{"tag": "v1", "tree_hash": "0"}', "key 'origin' is null, not an object"),
    ],
)
def test_a_bad_pin(tmp_path: Path, text: str, message: str) -> None:
    project = _pinned(tmp_path, "tarball")
    project.pin.write_text(text)
    with pytest.raises(UserError, match=message):
        builder_of(project).origin_pin(project)


def test_an_unknown_builder(tmp_path: Path) -> None:
    project = write_project(tmp_path, "x", origins={}, builder="make")
    with pytest.raises(UserError, match=r"x/import\.json: key 'builder' is 'make', which does not"):
        builder_of(project)


def test_which_requirements_count(tmp_path: Path) -> None:
    folder = tmp_path / "x-1.dist-info"
    folder.mkdir()
    lines = [
        "numpy>1",
        "typing-extensions>=4; python_version<'3.11'",
        "pywin32; sys_platform == 'win32'",
        'pytest; extra == "test"',
        "Importlib.Metadata (>=4)",
        "uvloop; platform_system == 'Linux'",
    ]
    (folder / "METADATA").write_text("".join(f"Requires-Dist: {line}\n" for line in lines))
    assert list(requirements(tmp_path)) == ["numpy", "importlib_metadata", "uvloop"]
