# SPDX-License-Identifier: Apache-2.0
"""Test merge.bzl by running it as Python: its Starlark code is also valid Python."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from third_party.pypi import lock

_NAMESPACE: dict[str, Any] = {}
exec(Path(__file__).with_name("merge.bzl").read_text(), _NAMESPACE)

check_requirements: Callable[..., str | None] = _NAMESPACE["check_requirements"]
file_name: Callable[..., str] = _NAMESPACE["file_name"]
merge_annotations: Callable[..., tuple[Any, str | None]] = _NAMESPACE["merge_annotations"]
merge_locks: Callable[..., tuple[Any, str | None]] = _NAMESPACE["merge_locks"]
replaced_wheels: Callable[..., tuple[Any, str | None]] = _NAMESPACE["replaced_wheels"]
with_canonical_labels: Callable[..., dict[str, Any]] = _NAMESPACE["with_canonical_labels"]

_OURS = "@torch_google//third_party/pypi:lock.json"
_YOURS = "//deps:mine.lock.json"
_UPDATE = "Run `bazel run @torch_google//third_party/pypi:update -- deps/mine.in`"


def _package(version: str, *requires: str, sha256: str = "0") -> dict[str, Any]:
    return {
        "distribution": "x",
        "version": version,
        "filename": f"x-{version}.whl",
        "sha256": sha256,
        "requires": list(requires),
    }


def _merge(
    ours: dict[str, Any], yours: dict[str, Any], **more: Any
) -> tuple[dict[str, Any] | None, str]:
    locks = {_OURS: {"packages": ours}, _YOURS: {"packages": yours, **more}}
    before = copy.deepcopy(locks)
    packages, error = merge_locks(locks, "2.0+cpu")
    assert locks == before
    assert (packages is None) == (error is not None)
    return packages, error or ""


def test_the_locks_of_this_module_merge() -> None:
    files = [lock.FILE, *(group.file for group in lock.groups())]
    packages, error = merge_locks(
        {file.name: json.loads(file.read_text()) for file in files}, "2.0+cpu"
    )
    assert error is None
    assert packages["numpy"]["lock"] == "lock.json"
    annotations, error = merge_annotations(
        {"annotations.json": (json.loads(lock.ANNOTATIONS.read_text()), True)}, packages
    )
    assert error is None
    assert annotations["numpy"]["hot"]


def test_a_package_of_yours_is_added() -> None:
    packages, error = _merge({"a": _package("1")}, {"b": _package("1", "a", "torch")})
    assert not error
    assert packages
    assert {key: row["lock"] for key, row in packages.items()} == {"a": _OURS, "b": _YOURS}


def test_an_extra_adds_to_the_needs_of_a_package() -> None:
    packages, error = _merge({"a": _package("1")}, {"a": _package("1", "b"), "b": _package("1")})
    assert not error
    assert packages
    assert packages["a"] == {**_package("1", "b"), "lock": _OURS}


def test_two_versions_are_refused() -> None:
    _, error = _merge({"a": _package("1")}, {"a": _package("2")})
    assert error == (
        f"a is 1 in {_OURS}, but 2 in {_YOURS}. A build has one version of a package. {_UPDATE}:"
        " it keeps the versions of torch_google."
    )


def test_two_wheels_of_a_version_are_refused() -> None:
    _, error = _merge({"a": _package("1")}, {"a": _package("1", sha256="f")})
    assert error.startswith(f"a 1 has the sha256 0 in {_OURS}, but f in {_YOURS}. A build has one")


def test_a_need_that_no_lock_has_is_refused() -> None:
    _, error = _merge({"a": _package("1")}, {"b": _package("1", "c")})
    assert error.startswith(f"{_YOURS}: 'b' requires 'c', which is in no lock. {_UPDATE}")


def test_a_lock_made_with_other_versions_is_refused() -> None:
    ours = {"a": _package("1")}
    _, error = _merge(ours, {}, resolved_with={"a": "1", "torch": "2.0+cpu"})
    assert not error
    _, error = _merge(ours, {}, resolved_with={"a": "0"})
    assert error.startswith(f"{_YOURS} was resolved with a 0, but this build has 1. {_UPDATE}")
    _, error = _merge(ours, {}, resolved_with={"torch": "1.0"})
    assert error.startswith(f"{_YOURS} was resolved with torch 1.0, but this build has 2.0+cpu.")
    _, error = _merge(ours, {}, resolved_with={"gone": "1"})
    assert "this build has none" in error


def test_an_edit_of_the_requirements_is_noticed() -> None:
    value = {"requirements": ["a", "b==1"]}
    assert check_requirements(_YOURS, value, "//deps:mine.in", "b==1 # why\n\n# c\na\n") is None
    for text, line in {"a\nb==2\n": "b==2", "a\n": "b==1", "a\nb==1\na\n": "a line"}.items():
        error = check_requirements(_YOURS, value, "//deps:mine.in", text)
        assert error == (
            f"//deps:mine.in: '{line}' changed after {_YOURS} was made."
            " Run `bazel run @torch_google//third_party/pypi:update -- deps/mine.in`."
        )


def test_annotations_of_an_unknown_package_are_refused_in_the_root_module_only() -> None:
    files = {"f": ({"a": {"zip_safe": False}}, True)}
    _, error = merge_annotations(files, {})
    assert re.match("f: 'a' is in no lock", error or "")
    assert merge_annotations({"f": (files["f"][0], False)}, {}) == ({}, None)


def test_a_label_in_annotations_means_a_target_of_their_own_repository() -> None:
    rows = {"a": {"overlay": "//lib:overlay", "why": "."}, "b": {"why": "."}}
    assert with_canonical_labels(rows, "other~") == {
        "a": {"overlay": "@@other~//lib:overlay", "why": "."},
        "b": {"why": "."},
    }
    assert with_canonical_labels(rows, "")["a"]["overlay"] == "@@//lib:overlay"


def test_two_annotations_of_a_package_must_agree() -> None:
    row = {"zip_safe": False}
    same = {"f": ({"a": row}, True), "g": ({"a": dict(row)}, True)}
    assert merge_annotations(same, {"a": {}}) == ({"a": row}, None)
    _, error = merge_annotations({**same, "g": ({"a": {}}, True)}, {"a": {}})
    assert error == "f and g annotate 'a' differently. Remove one entry."


def test_a_target_takes_the_place_of_a_wheel() -> None:
    tags = [("a", "@@a//:a", True), ("a", "@@a//:a", False)]
    assert replaced_wheels(tags, {"a": {}, "b": {}}) == ({"a": "@@a//:a"}, None)
    _, error = replaced_wheels([*tags, ("a", "@@c//:c", False)], {"a": {}})
    assert error is not None
    assert error.startswith('pypi.replace(wheel = "a") is given for both @@a//:a and @@c//:c. Rem')


def test_a_wheel_that_no_lock_has_is_replaced_in_the_root_module_only() -> None:
    _, error = replaced_wheels([("a", "@@a//:a", True)], {})
    assert error is not None
    assert error.startswith('pypi.replace(wheel = "a"): no lock has this wheel. Remove the line')
    assert replaced_wheels([("a", "@@a//:a", False)], {}) == ({}, None)


def test_files_are_named_as_the_root_module_names_them() -> None:
    path = ("third_party/pypi", "lock.json")
    assert file_name("", "", *path) == _OURS
    assert file_name("torch_google~", "torch_google~", *path) == _OURS
    assert file_name("", "torch_google~", "", "a.json") == "//:a.json"
    assert file_name("other~1.2", "torch_google~", "", "a.json") == "@other//:a.json"
    assert file_name("other+", "torch_google+", "", "a.json") == "@other//:a.json"
