# SPDX-License-Identifier: Apache-2.0
"""A test with a known failure is reported as skipped if it fails, and as failed if it passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fbcode import outcomes, recording
from tests.upstream.files import exceptions
from tests.upstream.files.exceptions import Entry
from tools.presubmit.results import Outcome

_SUITE = """
import os
import unittest

class TestThingsCPU(unittest.TestCase):
    def test_passes_cpu(self):
        pass

    def test_fails_cpu(self):
        raise ValueError("no")

    def test_skips_cpu(self):
        self.skipTest("not here")

    def test_zz_dies_cpu(self):
        os._exit(7)

class TestBroken(unittest.TestCase):
    def setUp(self):
        raise ValueError("no")

    def test_anything(self):
        pass
"""
# Runs test_things.py with the plugins `exceptions` and `recording`, in one_file.py's order.
_PROGRAM = """
import sys
sys.path[:] = {path}
from tests.upstream.files import exceptions
exceptions._entries = lambda: exceptions.parse({entries!r})
import pytest
names = ["tests.upstream.files.exceptions", "tests.fbcode.recording"]
sys.exit(pytest.main(["-p", "no:cacheprovider", *(f"-p{{n}}" for n in names), "test_things.py"]))
"""


def _run(folder: Path, entries: str) -> dict[str, tuple[Outcome, str]]:
    (folder / "test_things.py").write_text(_SUITE)
    results = folder / "results.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(path=sys.path, entries=entries)],
        cwd=folder,
        env={**os.environ, recording.FILE: str(results)},
        capture_output=True,
        text=True,
        check=False,
    )
    records = outcomes.read(results).values()
    failed = any(ran.outcome is Outcome.FAILED for ran in records)
    assert done.returncode in (7, int(failed)), done.stdout + done.stderr
    return {ran.test: (ran.outcome, ran.reason) for ran in records}


def test_what_is_known_is_skipped_with_its_reason(tmp_path: Path) -> None:
    entries = """[
        {"tests": "test_things::TestThingsCPU::test_fails_cpu", "reason": "it cannot"},
        {"tests": "test_things::TestBroken::*", "reason": "nor this"},
        {"tests": "*test_skips_cpu", "reason": "it is not run at all"},
        {"tests": "*test_zz_dies_cpu", "reason": "ends its process", "ends_process": true}
    ]"""
    assert _run(tmp_path, entries) == {
        "test_passes_cpu": (Outcome.PASSED, ""),
        "test_fails_cpu": (Outcome.SKIPPED, "known: it cannot"),
        "test_skips_cpu": (Outcome.SKIPPED, "not here"),
        "test_zz_dies_cpu": (Outcome.SKIPPED, "known: ends its process"),
        "test_anything": (Outcome.SKIPPED, "known: nor this"),
    }


def test_what_passes_has_no_entry(tmp_path: Path) -> None:
    entries = '[{"tests": "*_cpu", "reason": "all of them"}]'
    results = _run(tmp_path, entries)
    message = (
        "test_things::TestThingsCPU::test_passes_cpu passes. Remove '*_cpu' from exceptions.json"
    )
    assert results["test_passes_cpu"] == (Outcome.FAILED, message)


def test_what_depends_on_the_machine_may_pass(tmp_path: Path) -> None:
    entries = '[{"tests": "*s_cpu", "reason": "it depends", "may_pass": true}]'
    results = _run(tmp_path, entries)
    assert results["test_passes_cpu"] == (Outcome.PASSED, "")
    assert results["test_fails_cpu"] == (Outcome.SKIPPED, "known: it depends")
    assert results["test_skips_cpu"] == (Outcome.SKIPPED, "not here")


def test_without_an_entry_a_failure_is_one(tmp_path: Path) -> None:
    entries = '[{"tests": "*test_zz_dies_cpu", "reason": "ends", "ends_process": true}]'
    results = _run(tmp_path, entries)
    assert results["test_fails_cpu"][0] is Outcome.FAILED
    assert results["test_anything"][0] is Outcome.FAILED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"tests": "a"}]', "entry 0: expected tests and reason"),
        ('[{"tests": "a", "reason": "b", "other": 1}]', "entry 0: expected tests and reason"),
        ('[{"tests": "a", "reason": "b"}, {"tests": "c", "reason": ""}]', "entry 1: give the"),
    ],
)
def test_an_entry_has_a_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        exceptions.parse(text)


def test_the_file_is_of_this_form() -> None:
    entries = exceptions.parse(exceptions.FILE.read_text(encoding="utf-8"))
    names = [entry.tests for entry in entries]
    assert names == sorted(set(names)), "sort the entries by their tests, each once"
    assert Entry("a::B::*", "").covers("a::B::test_c")
