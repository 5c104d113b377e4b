# SPDX-License-Identifier: Apache-2.0
"""TABLE.md has a row for each test file, and shows every reason for a failure or skip."""

from __future__ import annotations

from pathlib import Path

from tests.fbcode.outcomes import Ran
from tests.upstream.files import page
from tools.presubmit.results import Outcome

_FOUND = [
    Ran("test_a::TestA", "test_1_cpu", "cpu", Outcome.PASSED, "", 1.4),
    Ran("test_a::TestB", "test_2_cpu", "cpu", Outcome.SKIPPED, "known: no | kernel", 0.2),
    Ran("test_a::TestB", "test_3_cpu", "cpu", Outcome.SKIPPED, "fewer than 2 devices"),
    Ran("test_b::TestC", "test_4", "", Outcome.SKIPPED, "fewer than 99 devices"),
    Ran("test_b::TestC", "test_6", "", Outcome.SKIPPED, "could not fetch 'https://host/data/a.pt'"),
    Ran("test_b::TestC", "test_5", "", Outcome.FAILED, "RuntimeError: <no>", 3.0),
]


def test_the_page(tmp_path: Path) -> None:
    page.write(_FOUND, tmp_path / "TABLE.md")
    lines = (tmp_path / "TABLE.md").read_text().splitlines()
    assert lines[lines.index("|---|---|---|---|---|---|---|---|---|") + 1 :] == [
        "| test_a | cpu | 2 | 1 | 50.00 % | 0 | 1 | 1 | 2 |",
        "| test_b | none | 1 | 0 | 0.00 % | 1 | 0 | 2 | 3 |",
        "| all |  | 3 | 1 | 33.33 % | 1 | 1 | 3 | 5 |",
        "",
        "## Known failures",
        "",
        "| reason | tests |",
        "|---|---|",
        "| no \\| kernel | 1: `test_a::TestB::test_2_cpu` |",
        "",
        "## Skipped",
        "",
        "| reason | files | tests |",
        "|---|---|---|",
        "| fewer than N devices | test_a, test_b | 2 |",
        "| could not fetch 'a.pt' | test_b | 1 |",
        "",
        "## Failed",
        "",
        "- `test_b::TestC::test_5`: RuntimeError: \\<no>",
    ]


def test_without_failures_there_is_no_list_of_them() -> None:
    assert "## " not in page.text(_FOUND[:1])
