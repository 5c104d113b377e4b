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


def _licences(root: Path, **licences: dict[str, str]) -> None:
    (root / "third_party" / "licences.json").write_text(json.dumps(licences))


def test_wheels_of_the_lock(root: Path) -> None:
    locked = wheels(root)
    name = "a_b-2-py3-none-any.whl"
    assert locked.packages == (Locked("a_b", "A.b", "2", "pkg:pypi/a-b@2", "MIT", name, "f" * 64),)
    assert (locked.direct, locked.of_torch) == (("a_b",), ("a_b",))


def test_what_only_tests_need_is_in_no_program(root: Path) -> None:
    groups = root / "third_party/pypi/groups"
    groups.mkdir()
    row = {"distribution": "T", "filename": "t.whl", "sha256": "0", "version": "1"}
    lock = {"packages": {"t": {**row, "requires": ["a_b"]}}}
    (groups / "some.in").write_text("T==1\n")
    (groups / "some.lock.json").write_text(json.dumps(lock))
    locked = wheels(root)
    assert [wheel.key for wheel in locked.packages] == ["a_b", "t"]
    assert (locked.direct, locked.of_tests) == (("a_b",), ("t",))


def test_the_lock_of_the_newer_torch_has_other_versions(root: Path) -> None:
    newer = root / "third_party/torch/newer"
    newer.mkdir()
    row = {"filename": "w.whl", "sha256": "0", "version": "3"}
    packages = {
        "a_b": {"distribution": "A.b", "requires": ["only_here"], **row},
        "only_here": {"distribution": "only-here", "requires": [], **row},
    }
    (newer / "lock.json").write_text(json.dumps({"packages": packages}))
    _licences(root, pypi={"a_b": "MIT", "only_here": "ISC"}, bazel={})
    old, new, only = wheels(root).packages
    assert (old.key, old.version) == ("a_b", "2")
    assert (new.key, new.purl) == ("torch_newer_a_b", "pkg:pypi/a-b@3")
    assert (new.licence, only.licence) == ("MIT", "ISC")
    assert new.needs == (only.key,) == ("torch_newer_only_here",)


def test_modules_and_the_workspace_itself(root: Path) -> None:
    assert modules(root) == (Locked("rules", "rules", "2", "pkg:bazel/rules@2", ""),)
    assert own_module(root) == ("ws", "0.1")
    (root / "MODULE.bazel").write_text("")
    with pytest.raises(UserError, match=r"no module\(\.\.\.\) with a name"):
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"packages"', '"rows"', "no 'packages'. Run"),
        ('"torch_requires"', '"requires"', "no 'torch_requires'. Run"),
        ('"sha256"', '"sha1"', r"KeyError\('sha256'\)"),
        ('"requires": []', '"requires": 1', "requires of a_b is not a list"),
        ("{", "[", r"lock\.json:1: "),
    ],
)
def test_a_lock_of_another_form(root: Path, old: str, new: str, message: str) -> None:
    file = root / "third_party" / "pypi" / "lock.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        wheels(root)


def test_files_that_every_checkout_has(root: Path) -> None:
    (root / "third_party" / "pypi" / "requirements.in").unlink()
    with pytest.raises(UserError, match="requirements.in: no such file. Restore it"):
        wheels(root)


def test_a_module_without_a_version(root: Path) -> None:
    (root / "MODULE.bazel").write_text('bazel_dep(name = "rules")\n')
    with pytest.raises(UserError, match="bazel_dep 'rules' has no version"):
        modules(root)
