# SPDX-License-Identifier: Apache-2.0
"""Test the one-version policy: an imported project replaces a locked wheel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tools.importer.metadata.starlark import calls
from tools.importer.project import TREE, load_project, project_names
from tools.importer.tree_pin import read_tree_pin

_ROOT = Path(__file__).resolve().parents[2]


def _distributions(workspace: Path) -> Mapping[str, tuple[str, str | None]]:
    """Map each imported distribution to its project and its pinned version."""
    projects = [load_project(workspace, name) for name in project_names(workspace)]
    return {
        name: (project.name, read_tree_pin(project.pin).version)
        for project in projects
        if project.builder == TREE
        for name in project.distributions
    }


def _replaced(workspace: Path) -> Mapping[str, str]:
    """Return the MODULE.bazel targets that replace wheels, keyed by wheel name."""
    module = workspace / "MODULE.bazel"
    rows = [*calls(module, "pypi.replace"), *calls(module, "pypi_dev.replace")]
    return {str(row["wheel"]): str(row["by"]) for row in rows}


def _second_versions(workspace: Path) -> Iterator[str]:
    imported, replaced = _distributions(workspace), _replaced(workspace)
    pypi = workspace / "third_party/pypi"
    for lock in [pypi / "lock.json", *sorted(pypi.glob("groups/*.lock.json"))]:
        packages = json.loads(lock.read_text())["packages"]
        for name in sorted(packages.keys() & imported.keys()):
            project, version = imported[name]
            locked = packages[name]["version"]
            both = f"{name}: {lock.name} has {locked}, third_party/{project}/pin.json has {version}"
            if replaced.get(name) != f"@{project}":
                line = f'pypi.replace(wheel = "{name}", by = "@{project}")'
                yield f"{both}, and a build could have both. Add {line} to MODULE.bazel"
            elif version is not None and locked != version:
                group = lock.name.replace("lock.json", "in")
                file = "requirements.in" if lock.parent == pypi else group
                yield (
                    f"{both}. Write {name}=={version} in {file}, and run third_party/pypi/update.py"
                )


def test_a_build_has_one_version_of_each_imported_project() -> None:
    assert set(_distributions(_ROOT)) >= {"accelerate", "pytorch_ignite", "torchinfo"}
    assert list(_second_versions(_ROOT)) == []


@pytest.fixture(name="workspace")
def _workspace(tmp_path: Path) -> Path:
    origin = {"kind": "sdist", "project": "Some.Lib", "version": "2", "sha256": "0" * 64}
    pin = {"tag": "v2", "version": "2", "origin": origin, "tree_hash": "1" * 64}
    settings = {"origins": {"sdist": {"project": "Some.Lib"}}}
    for path, data in {
        "third_party/lib/import.json": settings,
        "third_party/lib/pin.json": pin,
        "third_party/pypi/lock.json": {"packages": {"numpy": {}}},
        "third_party/pypi/groups/x.lock.json": {"packages": {"some_lib": {"version": "2"}}},
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(data))
    (tmp_path / "MODULE.bazel").write_text("")
    return tmp_path


def test_a_wheel_that_is_not_replaced_is_named(workspace: Path) -> None:
    (line,) = _second_versions(workspace)
    assert line == (
        "some_lib: x.lock.json has 2, third_party/lib/pin.json has 2, and a build could have both."
        ' Add pypi.replace(wheel = "some_lib", by = "@lib") to MODULE.bazel'
    )
    (workspace / "MODULE.bazel").write_text('pypi.replace(wheel = "some_lib", by = "@other")\n')
    assert list(_second_versions(workspace)) == [line]


def test_a_second_version_is_named(workspace: Path) -> None:
    (workspace / "MODULE.bazel").write_text('pypi_dev.replace(wheel = "some_lib", by = "@lib")\n')
    assert list(_second_versions(workspace)) == []
    lock = {"packages": {"some_lib": {"version": "1"}}}
    (workspace / "third_party/pypi/groups/x.lock.json").write_text(json.dumps(lock))
    (line,) = _second_versions(workspace)
    assert line == (
        "some_lib: x.lock.json has 1, third_party/lib/pin.json has 2. Write some_lib==2 in x.in,"
        " and run third_party/pypi/update.py"
    )


@pytest.mark.parametrize("name", ["accelerate", "ignite", "torchinfo"])
def test_its_repository_is_declared(name: str) -> None:
    assert f'imported.project(name = "{name}")' in (_ROOT / "MODULE.bazel").read_text()
