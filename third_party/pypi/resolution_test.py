# SPDX-License-Identifier: Apache-2.0
"""Locks are updated with as few requests to pip as possible. pip and its index are fakes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from packaging.requirements import Requirement

from third_party.pypi import resolution
from third_party.pypi.lock import Lock
from third_party.pypi.pip_report import ConflictError
from third_party.pypi.resolution import EVERYTHING, Inputs, Locks

_TORCH = "torch==1"
_NEEDS = ("a",)

_INDEX: dict[str, dict[str, list[str]]] = {
    "torch": {"1": list(_NEEDS)},
    "a": {"1": [], "2": []},
    "b": {"1": ["a"], "2": ["a>=2"]},
    "core": {"1": [], "2": []},
    "user": {"1": ["core<2"]},
    "extra": {"1": ["a", 'more; extra == "x"']},
    "more": {"1": []},
    "data": {"1": ["missing"]},
    "plugin": {"1": ["torch"]},
}


@dataclasses.dataclass
class _Pip:
    """A fake pip that chooses the newest versions that all lines and constraints allow."""

    asked: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    limits: list[int | None] = dataclasses.field(default_factory=list)

    def __call__(
        self,
        lines: Sequence[str],
        *,
        constraints: Iterable[str],
        needs: bool = True,
        max_retries: int | None = 0,
    ) -> dict[str, Any]:
        self.asked.append(tuple(lines))
        self.limits.append(max_retries)
        held = [Requirement(line) for line in constraints]
        for versions in itertools.product(*(reversed(list(rows)) for rows in _INDEX.values())):
            pick = dict(zip(_INDEX, versions, strict=True))
            chosen = _closure(lines, pick, needs=needs)
            if chosen is not None and all(
                requirement.specifier.contains(pick[requirement.name]) for requirement in held
            ):
                return {"install": [_row(name, pick[name]) for name in sorted(chosen)]}
        raise ConflictError("pip exited 1: ResolutionImpossible")


def _closure(lines: Sequence[str], pick: dict[str, str], *, needs: bool) -> set[str] | None:
    chosen = set()
    todo = [Requirement(line) for line in lines]
    while todo:
        requirement = todo.pop()
        if not requirement.specifier.contains(pick[requirement.name]):
            return None
        chosen.add(requirement.name)
        for needed in map(Requirement, _INDEX[requirement.name][pick[requirement.name]]):
            extras = [{"extra": extra} for extra in ("", *requirement.extras)]
            if needs and (not needed.marker or any(map(needed.marker.evaluate, extras))):
                todo.append(needed)
    return chosen


def _row(name: str, version: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "version": version, "requires_dist": _INDEX[name][version]},
        "download_info": {
            "url": f"file:///x/{name}-{version}-py3-none-any.whl",
            "archive_info": {"hashes": {"sha256": f"{name}{version}"}},
        },
    }


def _inputs(*lines: str, torch: str = _TORCH, alone: Iterable[str] = (), **groups: Any) -> Inputs:
    return Inputs(lines, groups, torch, frozenset(alone))


def _update(
    old: Locks, inputs: Inputs, *upgrade: str
) -> tuple[dict[str, str], dict[str, dict[str, str]], Locks, _Pip]:
    pip = _Pip()
    new = resolution.update(old, inputs, upgrade=upgrade, ask=pip, torch_needs=lambda: _NEEDS)
    assert new.main
    groups = {name: _versions(value) for name, value in new.groups.items()}
    return _versions(new.main), groups, new, pip


def _versions(value: Lock) -> dict[str, str]:
    return {key: row.version for key, row in sorted(value.packages.items())}


_NOTHING = Locks(None, {})


def _locked(inputs: Inputs) -> Locks:
    return _update(_NOTHING, inputs)[2]


def _downgraded(locks: Locks, key: str) -> Locks:
    """Return `locks` with a package in the main lock downgraded to version 1."""
    assert locks.main
    row = dataclasses.replace(locks.main.packages[key], version="1")
    main = dataclasses.replace(locks.main, packages={**locks.main.packages, key: row})
    return Locks(main, locks.groups)


def test_without_a_lock_everything_is_the_newest() -> None:
    main, groups, new, pip = _update(_NOTHING, _inputs("b", g=("user",)))
    assert (main, groups) == ({"a": "2", "b": "2"}, {"g": {"core": "1", "user": "1"}})
    assert new.main
    assert new.main.torch_requires == ("a",)
    assert new.main.torch_needs == _NEEDS
    assert pip.asked == [(_TORCH, "b"), ("user",)]


def test_no_change_asks_nothing() -> None:
    inputs = _inputs("b", "extra[x]", "data", alone=["data"], g=("user",))
    old = _locked(inputs)
    _, _, new, pip = _update(old, inputs)
    assert new == old
    assert pip.asked == []


def test_a_new_line_is_all_that_pip_is_asked_about() -> None:
    old = _downgraded(_locked(_inputs("a")), "a")
    main, _, new, pip = _update(old, _inputs("a", "b"))
    assert main == {"a": "1", "b": "1"}
    assert pip.asked == [("b",)]
    assert new.main
    assert new.main.packages["b"].requires == ("a",)


def test_a_new_line_is_checked_against_torch() -> None:
    main, _, _, pip = _update(_locked(_inputs("b")), _inputs("b", "plugin"))
    assert main == {"a": "2", "b": "2", "plugin": "1"}
    assert pip.asked == [("plugin",)]


def test_a_line_that_goes_takes_its_packages_along() -> None:
    main, _, _, pip = _update(_locked(_inputs("b", "user")), _inputs("b"))
    assert main == {"a": "2", "b": "2"}
    assert pip.asked == []


def test_a_package_moves_between_the_main_lock_and_a_group() -> None:
    old = _locked(_inputs("b", "core==1", g=("user",)))
    main, groups, new, pip = _update(old, _inputs("b", g=("user",)))
    assert (main, groups) == ({"a": "2", "b": "2"}, {"g": {"core": "1", "user": "1"}})
    assert pip.asked == []
    main, groups, _, _ = _update(new, _inputs("b", "user", g=("user",)))
    assert (main, groups) == ({"a": "2", "b": "2", "core": "1", "user": "1"}, {"g": {}})


def test_an_upgrade_frees_one_package_or_all() -> None:
    inputs = _inputs("a", "b", g=("core",))
    old = _downgraded(_downgraded(_locked(inputs), "a"), "b")
    main, _, _, pip = _update(old, inputs, "a")
    assert main == {"a": "2", "b": "1"}
    assert pip.limits[0] is not None
    main, _, _, pip = _update(old, inputs, EVERYTHING)
    assert main == {"a": "2", "b": "2"}
    assert pip.limits == [None, None]


def test_an_upgrade_keeps_the_needs_of_torch() -> None:
    inputs = _inputs("core")
    main, _, new, pip = _update(_locked(inputs), inputs, "core")
    assert main == {"a": "2", "core": "2"}
    assert pip.asked == [(_TORCH, "core")]
    assert new == _locked(inputs)


def test_an_upgrade_in_a_group_leaves_the_main_lock_alone() -> None:
    inputs = _inputs("a", g=("core",))
    _, groups, _, pip = _update(_downgraded(_locked(inputs), "a"), inputs, "core")
    assert groups == {"g": {"core": "2"}}
    assert pip.asked == [("core",)]


def test_a_line_that_pins_another_version_moves_the_package() -> None:
    main, _, _, pip = _update(_locked(_inputs("a")), _inputs("a==1"))
    assert main == {"a": "1"}
    assert pip.asked == [(_TORCH, "a==1")]


def test_extras_come_and_go() -> None:
    main, _, new, pip = _update(_locked(_inputs("a", "extra")), _inputs("a", "extra[x]"))
    assert main == {"a": "2", "extra": "1", "more": "1"}
    assert pip.asked == [("extra[x]",)]
    main, _, _, _ = _update(new, _inputs("a", "extra"))
    assert main == {"a": "2", "extra": "1"}


def test_data_comes_without_its_needs_and_is_asked_for_once() -> None:
    old = _locked(_inputs("b"))
    main, _, new, pip = _update(old, _inputs("b", "data", alone=["data"]))
    assert main == {"a": "2", "b": "2", "data": "1"}
    assert ("data",) in pip.asked
    _, _, again, pip = _update(new, _inputs("b", "data", alone=["data"]))
    assert again == new
    assert pip.asked == []


def test_another_torch_asks_about_everything() -> None:
    _, _, new, pip = _update(_locked(_inputs("b")), _inputs("b", torch="torch==1.0"))
    assert pip.asked == [("torch==1.0", "b")]
    assert new.main
    assert new.main.torch_requires == ("a",)


def test_groups_have_one_version_of_a_package() -> None:
    _, groups, new, _ = _update(_NOTHING, _inputs(g=("core",), h=("user",)))
    assert groups == {"g": {"core": "1"}, "h": {"user": "1"}}
    assert new.groups["h"].packages["user"].requires == ("core",)


def test_a_locked_version_in_the_way_is_named() -> None:
    old = _locked(_inputs("b", g=("core",)))
    inputs = _inputs("b", g=("core",), h=("user",))
    with pytest.raises(ConflictError) as caught:
        _update(old, inputs)
    assert str(caught.value) == (
        "pip exited 1: ResolutionImpossible. "
        "Without the locks, pip would change these packages: add --upgrade core"
    )
    _, groups, _, _ = _update(old, inputs, "core")
    assert groups == {"g": {"core": "1"}, "h": {"user": "1"}}


def test_a_conflict_that_no_lock_causes_says_so() -> None:
    with pytest.raises(ConflictError, match="Locked versions of groups are not the cause"):
        _update(_locked(_inputs("b")), _inputs("b", g=("user", "core==2")))
