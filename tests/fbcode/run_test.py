# SPDX-License-Identifier: Apache-2.0
"""The command runs suites for both devices, passes pytest's options on and sums up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fbcode import run
from tools.presubmit import results
from tools.presubmit.results import Outcome


def test_runs_and_sums_up(tmp_path: Path) -> None:
    file = tmp_path / "found.xml"
    command = ["devices", "--share=4999/5000", f"--results={file}", "--", "-k", "test_only_cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fbcode.run", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.read(file)
    assert found.properties == {"PYTORCH_TEST_FBCODE": "1"}
    assert {(case.device, case.outcome, case.reason) for case in found.cases} == {
        ("cpu", Outcome.PASSED, ""),
        ("tpu", Outcome.SKIPPED, "Only runs on cpu"),
    }
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["found", "1", "1", "0", "1"] in rows
    assert rows[-1] == ["1", "Only", "runs", "on", "cpu"]


def test_suites_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["others"])
    assert "invalid choice: 'others'" in capsys.readouterr().err
