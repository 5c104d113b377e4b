# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.metadata import sample_workspace
from tools.importer.metadata.locked import Locked, modules, own_module, wheels


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    return sample_workspace.make(tmp_path)


def _licences(root: Path, **kinds: dict[str, str]) -> None:
    (root / "third_party" / "licences.json").write_text(json.dumps(kinds))


def test_wheels_of_the_lock(root: Path) -> None:
    found = wheels(root)
    name = "a_b-2-py3-none-any.whl"
    assert found.packages == (Locked("a_b", "A.b", "2", "pkg:pypi/a-b@2", "MIT", name, "f" * 64),)
    assert (found.direct, found.of_torch) == (("a_b",), ("a_b",))


def test_modules_and_the_workspace_itself(root: Path) -> None:
    assert modules(root) == (Locked("rules", "rules", "2", "pkg:bazel/rules@2", ""),)
    assert own_module(root) == ("ws", "0.1")
    (root / "MODULE.bazel").write_text("")
    with pytest.raises(UserError, match=r"no module\(\.\.\.\)"):
        own_module(root)


def test_a_licence_of_nothing_is_refused(root: Path) -> None:
    _licences(root, pypi={"a_b": "MIT", "gone": "MIT"}, bazel={"left": "MIT"})
    with pytest.raises(UserError, match="'pypi' has no package 'gone' any more. Delete its line"):
        wheels(root)
    with pytest.raises(UserError, match="'bazel' has no package 'left'"):
        modules(root)


def test_a_package_without_a_licence_is_unknown(root: Path) -> None:
    _licences(root, pypi={}, bazel={})
    assert [wheel.licence for wheel in wheels(root).packages] == [""]
    _licences(root, bazel={})
    with pytest.raises(UserError, match="no object 'pypi'"):
        wheels(root)


def test_a_lock_of_another_form(root: Path) -> None:
    (root / "third_party" / "pypi" / "lock.json").write_text("{}")
    with pytest.raises(UserError, match="lock.json: key 'packages' is missing. Run third_party"):
        wheels(root)
