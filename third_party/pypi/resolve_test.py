# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from third_party.pypi.resolve import packages, requires


def test_edges_are_for_the_target() -> None:
    needs = {
        "pytest": [
            'colorama; sys_platform == "win32"',
            'tomli>=2; python_version < "3.11"',
            "pluggy<2,>=1.6",
        ],
        "pluggy": [],
    }
    assert requires(needs, ["pytest"]) == {"pytest": {"pluggy"}, "pluggy": set()}


def test_extras_bring_edges_only_when_asked_for() -> None:
    needs = {
        "etils": [
            'fsspec; extra == "epath"',
            'etils[epy]; extra == "epath"',
            'six; extra == "epy"',
        ],
        "fsspec": [],
        "six": [],
    }
    assert requires(needs, ["etils"])["etils"] == set()
    assert requires(needs, ["etils[epath]"])["etils"] == {"fsspec", "six"}


def test_an_extra_that_a_dependency_asks_for_counts() -> None:
    needs = {"a": ["B.b[fast]"], "b_b": ['c; extra == "fast"'], "c": []}
    assert requires(needs, ["a"]) == {"a": {"b_b"}, "b_b": {"c"}, "c": set()}


def test_old_style_requirements_and_cycles() -> None:
    needs = {"a": ["b (>=2.2.0)"], "b": ["a"]}
    assert requires(needs, ["a"]) == {"a": {"b"}, "b": {"a"}}


@pytest.mark.parametrize("archive", [{"hashes": {"sha256": "00"}}, {"hash": "sha256=00"}])
def test_rows_come_from_pips_report(archive: dict[str, object]) -> None:
    report = {
        "install": [
            {
                "metadata": {"name": "Foo-Bar", "version": "1+cpu"},
                "download_info": {
                    "url": "file:///x/Foo_Bar-1%2Bcpu-py3-none-any.whl#sha256=00",
                    "archive_info": archive,
                },
            }
        ]
    }
    row = packages(report, ["foo.bar"])["foo_bar"]
    assert row.filename == "Foo_Bar-1+cpu-py3-none-any.whl"
    assert (row.distribution, row.version, row.sha256) == ("Foo-Bar", "1+cpu", "00")
