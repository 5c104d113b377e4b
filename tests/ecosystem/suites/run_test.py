# SPDX-License-Identifier: Apache-2.0
"""Test the command with a small suite, whose source distribution the test creates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ecosystem.suites import run, tree
from tests.ecosystem.suites.catalogue import Suite
from tests.ecosystem.suites.results import Failure, Result
from tests.fbcode import outcomes
from tools.presubmit.results import Outcome

_TESTS = """
import os
import time

import pytest
import torch

DEVICE = os.environ["SMALL_DEVICE"]

def test_passes():
    assert torch.zeros(2).device.type == DEVICE

def test_is_wrong_on_tpu():
    assert torch.zeros(2).device.type == "cpu", "of the CPU"

def test_is_wrong():
    assert False

@pytest.mark.skipif(DEVICE == "cpu", reason="needs an accelerator")
def test_needs_an_accelerator():
    pass

def test_ends_its_process():
    if DEVICE != "cpu":
        os._exit(3)

def test_hangs():
    if DEVICE != "cpu":
        time.sleep(100)

def test_is_excluded():
    assert False

def test_is_last():
    pass
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sources = tmp_path / "sources"
    # The suite's folder has the same name as the workspace's package.
    (sources / "tests").mkdir(parents=True)
    (sources / "tests" / "__init__.py").write_text("")
    (sources / "tests" / "test_small.py").write_text(_TESTS)

    def prepare(suite: Suite, directory: Path) -> Path:
        return sources

    monkeypatch.setattr(tree, "prepare", prepare)
    row = {
        "library": "small",
        "version": "1",
        "sha256": "0" * 64,
        "paths": ["tests"],
        "environment": {"SMALL_DEVICE": "{device}"},
        "default_device": True,
        "excluded": [{"tests": "*::test_is_excluded", "reason": "it is wrong everywhere"}],
    }
    (tmp_path / "suites.json").write_text(json.dumps([row]))
    return tmp_path


def _run(work: Path, batch: int, again: bool = False) -> Result:
    return run.run("small", work, again=again, batch=batch, seconds=15, file=work / "suites.json")


def test_a_suite_runs_on_both_devices_and_continues(work: Path) -> None:
    result = _run(work, batch=100)
    failures = {failure.test.rpartition("::")[2]: failure for failure in result.failures}
    assert (result.cpu_passed, result.cpu_failed, result.cpu_skipped) == (5, 1, 1)
    assert (result.tpu_passed, result.tpu_skipped, result.more_passed) == (2, 0, 1)
    assert set(failures) == {"test_is_wrong_on_tpu", "test_ends_its_process", "test_hangs"}
    name = "tests/test_small.py::test_ends_its_process"
    assert failures["test_ends_its_process"] == Failure(name, "ended its process with status 3")
    assert "of the CPU" in failures["test_is_wrong_on_tpu"].error

    # A test without an outcome runs; the others do not.
    (journal,) = work.glob("small-*-tpu.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(line for line in lines if "test_is_last" not in line))
    before = journal.stat().st_size
    assert _run(work, batch=1) == result
    assert [test for _, test in outcomes.read(journal, before)] == ["test_is_last"]


def test_again_repeats_the_failures_on_tpu(work: Path) -> None:
    rows = {
        "tpu": outcomes.Ran("tests/test_small.py", "test_is_last", "", Outcome.FAILED, "Error"),
        "cpu": outcomes.Ran("tests/test_small.py", "test_is_last", "", Outcome.PASSED),
    }
    file = work / "sources/tests/test_small.py"
    file.write_text("def test_is_last():\n    pass\n")
    for device, row in rows.items():
        outcomes.append(work / f"small-{'0' * 12}-{device}.jsonl", [row])
    assert [failure.error for failure in _run(work, batch=100).failures] == ["Error"]
    assert _run(work, batch=100, again=True).failures == ()


def test_a_suite_that_pytest_cannot_collect_is_an_error(work: Path) -> None:
    (work / "sources/tests/test_small.py").write_text("import a_missing_module")
    with pytest.raises(run.SuiteError, match="small: pytest exited .*; see .*small-cpu.log"):
        _run(work, batch=100)


def test_an_unknown_suite_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--work", str(tmp_path), "tim"])
    assert "no suite tim; there are " in capsys.readouterr().err
