# SPDX-License-Identifier: Apache-2.0
"""Test the one-version policy: no imported project is also a wheel in a lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def _distributions(workspace: Path) -> dict[str, str]:
    """Map the normalised name of each imported distribution to the path of its pin."""
    found = {}
    for file in sorted(workspace.glob("third_party/*/pin.json")):
        origin = json.loads(file.read_text()).get("origin")
        if isinstance(origin, dict):
            name = str(origin.get("project", file.parent.name))
            found[name.lower().replace("-", "_").replace(".", "_")] = str(file)
    return found


def _second_versions(workspace: Path) -> Iterator[str]:
    imported = _distributions(workspace)
    pypi = workspace / "third_party/pypi"
    for lock in [pypi / "lock.json", *sorted(pypi.glob("groups/*.lock.json"))]:
        for name in sorted(json.loads(lock.read_text())["packages"].keys() & imported.keys()):
            yield f"{imported[name]} and {lock} both pin {name}. Take it out of the lock's .in file"


def test_no_imported_project_is_in_a_lock() -> None:
    assert set(_distributions(_ROOT)) >= {"accelerate", "pytorch_ignite", "torchinfo"}
    assert list(_second_versions(_ROOT)) == []


def test_a_second_version_is_named(tmp_path: Path) -> None:
    for path, data in {
        "third_party/lib/pin.json": {"origin": {"kind": "sdist", "project": "Some.Lib"}},
        "third_party/pypi/lock.json": {"packages": {"numpy": {}}},
        "third_party/pypi/groups/x.lock.json": {"packages": {"some_lib": {}}},
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(data))
    (line,) = _second_versions(tmp_path)
    assert "lib/pin.json and " in line
    assert "x.lock.json both pin some_lib" in line


@pytest.mark.parametrize("name", ["accelerate", "ignite", "torchinfo"])
def test_its_repository_is_declared(name: str) -> None:
    assert f'imported.project(name = "{name}")' in (_ROOT / "MODULE.bazel").read_text()
