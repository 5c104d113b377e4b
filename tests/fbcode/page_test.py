# SPDX-License-Identifier: Apache-2.0
"""Test that the page has a row for each suite and device, and shows every reason for a skip."""

from __future__ import annotations

from pathlib import Path

from tests.fbcode import page
from tests.fbcode.outcomes import Ran
from tools.presubmit.results import Outcome

_FOUND = [
    Ran("a_test::TestA", "test_1_cpu", "cpu", Outcome.PASSED),
    Ran("a_test::TestA", "test_2_cpu", "cpu", Outcome.SKIPPED, "fewer than 2 | 3 devices"),
    Ran("a_test::TestA", "test_3_cpu", "cpu", Outcome.SKIPPED, "fewer than 2 | 3 devices"),
    Ran("a_test::TestA", "test_1_tpu", "tpu", Outcome.FAILED, "RuntimeError: <no>"),
    Ran("a_test::TestA", "test_2_tpu", "tpu", Outcome.SKIPPED, "known: no kernel"),
    Ran("a_test", "test_other", "", Outcome.PASSED),
]


def test_the_page(tmp_path: Path) -> None:
    page.write(_FOUND, tmp_path / "TABLE.md")
    lines = (tmp_path / "TABLE.md").read_text().splitlines()
    assert lines[lines.index("|---|---|---|---|---|---|---|") + 1 :] == [
        "| a | none | 1 | 1 | 0 | 0 | 0 |",
        "| a: TestA | cpu | 1 | 1 | 0 | 0 | 2 |",
        "| a: TestA | tpu | 2 | 0 | 1 | 1 | 0 |",
        "| all |  | 4 | 2 | 1 | 1 | 2 |",
        "",
        "## Known failures",
        "",
        "| reason | device | tests |",
        "|---|---|---|",
        "| no kernel | tpu | 1 |",
        "",
        "## Skipped",
        "",
        "| reason | device | tests |",
        "|---|---|---|",
        "| fewer than 2 \\| 3 devices | cpu | 2 |",
        "",
        "## Failed",
        "",
        "- `a_test::TestA::test_1_tpu`: RuntimeError: \\<no>",
    ]


def test_without_failures_there_is_no_list_of_them() -> None:
    assert "## " not in page.text(_FOUND[:1])
