# SPDX-License-Identifier: Apache-2.0
"""Known failures are reported as skips with their reasons, and unexpected passes as failures."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

import pytest

from tests.fbcode.devices import known


def _suite() -> type[unittest.TestCase]:
    class TestThingsCPU(unittest.TestCase):
        def test_fails(self) -> None:
            raise AssertionError("no")

        def test_passes(self) -> None:
            pass

        def test_skips(self) -> None:
            self.skipTest("of its own")

    return TestThingsCPU


def _run(*entries: known.Entry) -> unittest.TestResult:
    suite, result = _suite(), unittest.TestResult()
    known.apply(suite, entries)
    unittest.defaultTestLoader.loadTestsFromTestCase(suite).run(result)
    assert result.testsRun == 3
    return result


def test_what_is_not_known_is_as_it_is() -> None:
    result = _run(known.Entry("TestOthersCPU.*", "others"))
    assert [test.id().rpartition(".")[2] for test, _ in result.failures] == ["test_fails"]
    assert [reason for _, reason in result.skipped] == ["of its own"]


def test_what_is_known_is_skipped() -> None:
    result = _run(known.Entry("TestThings*.test_f*", "it cannot"))
    assert not result.failures
    assert [reason for _, reason in result.skipped] == ["known: it cannot", "of its own"]


def test_what_is_known_and_passes_is_a_failure() -> None:
    result = _run(known.Entry("TestThingsCPU.test_passes", "it could not"))
    trace = {test.id().rpartition(".")[2]: text for test, text in result.failures}
    assert "Remove 'TestThingsCPU.test_passes' from known.json" in trace["test_passes"]


def test_an_entry_has_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    file.write_text(json.dumps([{"tests": "a", "reason": "b"}, {"tests": "a", "reason": ""}]))
    with pytest.raises(ValueError, match="entry 1: expected tests and reason"):
        known.load(file)


def test_every_entry_of_the_file_reads() -> None:
    assert all(entry.tests and entry.reason for entry in known.load())
