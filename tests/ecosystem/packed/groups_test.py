# SPDX-License-Identifier: Apache-2.0
"""Test that the programs contain each locked library that has cases, in its published version."""

from __future__ import annotations

import json
from pathlib import Path

from tests.ecosystem import results
from third_party.pypi import lock

_GROUPS: dict[str, list[str]] = json.loads(Path(__file__).with_name("groups.json").read_text())
_LOCKS = {
    name: lock.loads(file.read_text(encoding="utf-8")).packages
    for name, file in [("main", lock.FILE), *((row.name, row.file) for row in lock.groups())]
}


def test_each_locked_library_with_cases_is_in_the_program_of_its_lock() -> None:
    published = {row.library for row in results.read()}
    locked = {name: sorted(published & packages.keys()) for name, packages in _LOCKS.items()}
    assert {name: libraries for name, libraries in locked.items() if libraries} == _GROUPS, (
        "change tests/ecosystem/packed/groups.bzl"
    )


def test_the_rows_are_of_the_locked_versions() -> None:
    packages = {key: row for value in _LOCKS.values() for key, row in value.items()}
    for row in results.read():
        if row.library in packages:
            assert row.version == packages[row.library].version, row.key
