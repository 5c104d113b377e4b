# SPDX-License-Identifier: Apache-2.0
"""Run the suites for two processes, and check that a failure in either process fails the test.

The suites are in a separate module, because a spawned process imports them by name.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable

import pytest

from tests.fbcode.distributed.processes import (  # noqa: F401 - pytest finds them here
    Failing,
    TestGroup,
    TestProcesses,
    TestShards,
)


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    """Record for tools/presubmit/account.py that these test cases run on the CPU."""
    record_property("device", "cpu")


def _run(test: str) -> unittest.TestResult:
    result = unittest.TestResult()
    Failing(test).run(result)
    assert result.testsRun == 1
    return result


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("one_rank_raises", "ValueError: rank one says no"),
        ("the_first_ends", "Expected exit code 0 but got 3"),
    ],
)
def test_a_fault_of_one_rank_is_one_of_the_test(test: str, message: str) -> None:
    result = _run(test)
    ((_, trace),) = result.failures + result.errors
    assert message in trace


def test_ranks_that_skip_are_a_skip_with_its_reason() -> None:
    result = _run("all_ranks_skip")
    assert [reason for _, reason in result.skipped] == ["Skipped due to small world size."]
