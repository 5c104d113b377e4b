# SPDX-License-Identifier: Apache-2.0
"""The locks match their inputs, and every kind of mismatch is reported."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from third_party.pypi import agreement, lock

_INPUTS = {
    "requirements": lock.REQUIREMENTS.read_text(),
    "annotations": lock.ANNOTATIONS.read_text(),
    "torch_pin": lock.TORCH_PIN.read_text(),
}
_LOCK = lock.loads(lock.FILE.read_text())
_GROUPS = {group.name: lock.loads(group.file.read_text()) for group in lock.groups()}


def _problems(value: lock.Lock = _LOCK, **inputs: str) -> list[str]:
    return agreement.problems(value, **{**_INPUTS, **inputs})


def _with(key: str, **fields: Any) -> lock.Lock:
    row = dataclasses.replace(_LOCK.packages[key], **fields)
    return dataclasses.replace(_LOCK, packages={**_LOCK.packages, key: row})


def test_the_lock_agrees_with_its_inputs() -> None:
    assert _problems() == []


def test_annotations_name_packages_of_the_lock_and_say_why() -> None:
    for key, row in json.loads(_INPUTS["annotations"]).items():
        assert any(key in value.packages for value in (_LOCK, *_GROUPS.values()))
        assert row["why"].endswith(".")
        assert set(row) <= {
            "data_only",
            "environment",
            "files",
            "hot",
            "overlay",
            "toolkit",
            "why",
            "zip_safe",
        }


def test_other_workspaces_get_the_shared_locks() -> None:
    text = (Path(lock.__file__).parents[2] / "MODULE.bazel").read_text()
    tag = r'^{}\.lock\([^)]*file = "//third_party/pypi:([^"]+)"'
    shared = re.findall(tag.format("pypi"), text, re.MULTILINE)
    assert shared == ["lock.json", *(f"groups/{name}.lock.json" for name in lock.SHARED_GROUPS)]
    others = re.findall(tag.format("pypi_dev"), text, re.MULTILINE)
    assert len(shared) + len(others) == 1 + len(_GROUPS)


def test_what_torch_needs_is_there() -> None:
    assert {"filelock", "jinja2", "networkx", "sympy"} <= set(_LOCK.torch_requires)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seaborn", "requirements.in: 'seaborn' is not in lock.json"),
        ("numpy==1.0", f"'numpy==1.0', but lock.json has {_LOCK.packages['numpy'].version}"),
        ("numpy[x", "requirements.in: 'numpy[x': "),
        ("packaging>=1", "resolved from inputs"),
    ],
)
def test_an_edit_of_the_requirements_is_noticed(change: str, message: str) -> None:
    problems = _problems(requirements=f"{_INPUTS['requirements']}{change}\n")
    assert any(message in problem for problem in problems)
    assert any("third_party/pypi/update.py" in problem for problem in problems)


def test_a_requirement_that_goes_leaves_its_wheels_unneeded() -> None:
    without = _INPUTS["requirements"].replace("hypothesis\n", "")
    problems = _problems(requirements=without)
    assert any(
        "nothing in requirements.in needs 'sortedcontainers'" in problem for problem in problems
    )


def test_another_torch_is_noticed() -> None:
    name = "torch-9.9.9+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    problems = _problems(torch_pin=json.dumps({"wheel": {"filename": name}}))
    assert [problem for problem in problems if "resolved from inputs" in problem]


def test_a_package_that_turns_data_only_is_noticed() -> None:
    rows = {**json.loads(_INPUTS["annotations"]), "jax": {"data_only": True, "why": "."}}
    problems = _problems(annotations=json.dumps(rows))
    assert any("'jax' is data only" in problem for problem in problems)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (_with("jax", requires=("nowhere",)), "'jax' requires 'nowhere'"),
        (_with("jax", filename="jax-0.1-py3-none-any.whl"), "is another package"),
        (_with("jax", version="0.10.3"), "but lock.json has 0.10.3"),
        (
            _with("numpy", filename="numpy-2.4.6-cp312-cp312-linux_x86_64.whl"),
            "is not for CPython 3.11 on Linux x86-64",
        ),
        (dataclasses.replace(_LOCK, torch_requires=("nowhere",)), "torch requires 'nowhere'"),
        (dataclasses.replace(_LOCK, inputs="0"), "resolved from inputs 0"),
    ],
)
def test_a_damaged_lock_is_noticed(value: lock.Lock, message: str) -> None:
    problems = _problems(value)
    assert any(message in problem for problem in problems)
    assert all("Run third_party/pypi/update.py." in problem for problem in problems)


@pytest.mark.parametrize("group", lock.groups(), ids=lambda group: group.name)
def test_a_group_agrees_with_its_inputs_and_the_lock(group: lock.Group) -> None:
    others = {name: value for name, value in _GROUPS.items() if name != group.name}
    problems = agreement.group_problems(
        group.name,
        _GROUPS[group.name],
        _LOCK,
        requirements=group.requirements.read_text(),
        others=others,
    )
    assert problems == []
    text = group.file.read_text()
    assert lock.loads(text).dumps() == text, "run third_party/pypi/update.py"
    assert "://" not in text


def _package(key: str, *requires: str) -> lock.Package:
    return lock.Package(key, "1", f"{key}-1-py3-none-any.whl", "", requires)


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ("a\nc\n", "groups/g.in: 'c' is not in lock.json"),
        ("a==2\n", "groups/g.in: 'a==2', but lock.json has 1"),
        ("numpy\n", "groups/g.lock.json: nothing in groups/g.in needs 'a'"),
        ("a>=1\n", "groups/g.lock.json: resolved from inputs "),
    ],
)
def test_a_group_that_disagrees_is_noticed(requirements: str, message: str) -> None:
    rows = {"a": _package("a", "b", "numpy"), "b": _package("b")}
    group = lock.Lock(lock.digest(["a"], []), (), rows)
    assert agreement.group_problems("g", group, _LOCK, requirements="a\n") == []
    problems = agreement.group_problems("g", group, _LOCK, requirements=requirements)
    assert any(problem.startswith(message) for problem in problems)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (_package("a", "gone"), "groups/g.lock.json: 'a' requires 'gone', which is not locked"),
        (_package("numpy"), "groups/g.lock.json: 'numpy' is in lock.json"),
    ],
)
def test_a_damaged_group_is_noticed(row: lock.Package, message: str) -> None:
    rows = {"a": _package("a", "numpy"), row.distribution: row}
    group = lock.Lock(lock.digest(["a"], []), (), rows)
    problems = agreement.group_problems("g", group, _LOCK, requirements="a\n")
    assert any(problem.startswith(message) for problem in problems)


def test_two_groups_with_one_package_are_noticed() -> None:
    group = lock.Lock(lock.digest(["a"], []), (), {"a": _package("a")})
    problems = agreement.group_problems("g", group, _LOCK, requirements="a\n", others={"h": group})
    assert problems == [
        "groups/g.lock.json: 'a' is in groups/h.lock.json. Run third_party/pypi/update.py."
    ]
