# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.ecosystem.suites import catalogue

_ROW = {
    "library": "small",
    "version": "1",
    "sha256": "0" * 64,
    "paths": [
        "tests/folder",
        "tests/test_a.py",
        "tests/test_b.py::A::test_x",
        "tests/test_b.py::C",
    ],
    "excluded": [{"tests": "*::test_is_excluded", "reason": "it is wrong everywhere"}],
}


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/folder/test_x.py::test_x", True),
        ("tests/folder_2/test_x.py::test_x", False),
        ("tests/test_a.py::A::test_x[1]", True),
        ("tests/test_a.py::test_is_excluded", False),
        ("tests/test_b.py::A::test_x", True),
        ("tests/test_b.py::A::test_x[a::b]", True),
        ("tests/test_b.py::A::test_xy", False),
        ("tests/test_b.py::C::test_y", True),
        ("tests/test_b.py::test_y", False),
    ],
)
def test_a_suite_includes_tests_in_its_paths(test: str, expected: bool) -> None:
    assert catalogue.parse([_ROW])["small"].includes(test) == expected


def test_a_row_without_a_reason_is_an_error() -> None:
    row = {**_ROW, "excluded": [{"tests": "*", "reason": ""}]}
    with pytest.raises(ValueError, match=r"small: give a reason for \*"):
        catalogue.parse([row])


def test_parts_of_a_library_are_separate_suites() -> None:
    rows = [{**_ROW, "part": part} for part in ("", "more")]
    assert list(catalogue.parse(rows)) == ["small", "small-more"]
    with pytest.raises(ValueError, match="small-more is there twice"):
        catalogue.parse([*rows, rows[1]])
