# SPDX-License-Identifier: Apache-2.0
"""Extra locks are resolved against torch_google's locks. The package index is a fake."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from third_party.pypi import extra_locks
from third_party.pypi.extra_locks import Base, PinnedError
from third_party.pypi.lock import Lock, Package, loads
from third_party.pypi.pip_report import ConflictError

_NEEDS = {
    "tool": ["numpy", "own"],
    "own": [],
    "plugin": ["torch"],
    "numpy": ['fast; extra == "speed"'],
    "fast": [],
    "torch": [],
}
_BASE = Base.of(
    [Lock("", (), {"numpy": Package("numpy", "2", "numpy-2.whl", "", ())})], torch="torch==1"
)


class _Pip:
    """A fake pip that finds version 1 of each package, or the version that a constraint names."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def __call__(
        self, lines: Sequence[str], *, constraints: Iterable[str], **_: object
    ) -> dict[str, Any]:
        self.asked.append(tuple(lines))
        versions = dict(line.split("==") for line in constraints)
        # Report every package, so that tests fail if a lock contains a package that nothing needs.
        return {
            "install": [
                {
                    "metadata": {
                        "name": name,
                        "version": versions.get(name, "1"),
                        "requires_dist": needs,
                    },
                    "download_info": {
                        "url": f"https://x/{name}-{versions.get(name, '1')}.whl",
                        "archive_info": {"hashes": {"sha256": name}},
                    },
                }
                for name, needs in _NEEDS.items()
            ]
        }


def _update(
    old: Mapping[str, Lock] | None = None,
    /,
    base: Base = _BASE,
    upgrade: Sequence[str] = (),
    **inputs: Sequence[str],
) -> tuple[dict[str, Lock], _Pip]:
    pip = _Pip()
    return extra_locks.update(old or {}, inputs, base=base, upgrade=upgrade, ask=pip), pip


def test_a_lock_has_only_the_packages_that_torch_google_lacks() -> None:
    locks, _ = _update(f=["tool"])
    assert sorted(locks["f"].packages) == ["own", "tool"]
    assert locks["f"].packages["tool"].requires == ("numpy", "own")
    assert locks["f"].resolved_with == {"numpy": "2"}


def test_a_package_may_require_torch() -> None:
    old, _ = _update(f=["plugin"])
    assert old["f"].packages["plugin"].requires == ("torch",)
    assert old["f"].resolved_with == {"torch": "1"}
    new, pip = _update(old, f=["plugin", "own"])
    assert new["f"].packages["plugin"].requires == ("torch",)
    assert pip.asked == [("own",)]


def test_no_change_asks_nothing() -> None:
    old, _ = _update(f=["tool", "numpy[speed]", "torch>=1"])
    new, pip = _update(old, f=["tool", "numpy[speed]", "torch>=1"])
    assert new == old
    assert pip.asked == []
    assert loads(new["f"].dumps()) == new["f"]


def test_an_extra_of_a_package_of_torch_google_adds_edges() -> None:
    old, _ = _update(f=["numpy[speed]"])
    assert old["f"].packages["numpy"].requires == ("fast",)
    assert old["f"].packages["numpy"].version == "2"
    assert sorted(old["f"].packages) == ["fast", "numpy"]
    new, _ = _update(old, f=["numpy"])
    assert new["f"].packages == {}


def test_another_version_of_torch_google_asks_about_everything() -> None:
    old, _ = _update(f=["tool"])
    row = dataclasses.replace(_BASE.rows["numpy"], version="3")
    base = dataclasses.replace(_BASE, rows={**_BASE.rows, "numpy": row})
    new, pip = _update(old, base=base, f=["tool"])
    assert pip.asked == [("tool",)]
    assert new["f"].resolved_with == {"numpy": "3"}


def test_two_files_share_versions_and_have_a_package_once() -> None:
    locks, _ = _update(f=["own"], g=["tool"])
    assert sorted(locks["f"].packages) == ["own"]
    assert sorted(locks["g"].packages) == ["tool"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("numpy<2", "f: 'numpy<2', but torch_google pins numpy 2"),
        ("torch==2", "f: 'torch==2', but torch_google pins torch 1"),
    ],
)
def test_another_version_of_a_pinned_package_is_refused(line: str, message: str) -> None:
    with pytest.raises(PinnedError, match=message):
        _update(f=[line])


def test_an_upgrade_of_a_pinned_package_is_refused() -> None:
    with pytest.raises(PinnedError, match="--upgrade numpy: torch_google pins numpy 2"):
        _update(upgrade=["numpy"], f=["tool"])


def test_a_conflict_says_which_versions_stay() -> None:
    def refuse(*_: object, **__: object) -> dict[str, Any]:
        raise ConflictError("pip exited 1: ResolutionImpossible")

    with pytest.raises(
        ConflictError, match="Impossible. The versions of torch_google's locks stay"
    ):
        extra_locks.update({}, {"f": ["tool"]}, base=_BASE, ask=refuse)
