# SPDX-License-Identifier: Apache-2.0
"""run.py runs suites on both devices, passes options on to pytest, and prints totals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fbcode import outcomes, run
from tools.presubmit.results import Outcome


def test_runs_and_sums_up_and_does_nothing_twice(tmp_path: Path) -> None:
    file, table = tmp_path / "found.jsonl", tmp_path / "TABLE.md"
    command = ["devices", "--share=4999/5000", f"--results={file}", f"--page={table}"]
    command += ["--", "-k", "test_only_cpu"]
    once = _run(command)
    results = outcomes.read(file).values()
    assert {(ran.device, ran.outcome, ran.reason) for ran in results} == {
        ("cpu", Outcome.PASSED, ""),
        ("tpu", Outcome.SKIPPED, "Only runs on cpu"),
    }
    rows = [line.split() for line in once.splitlines()]
    assert ["restrictions_test::TestRestrictions", "1", "1", "0", "1"] in rows
    assert rows[-1] == ["1", "Only", "runs", "on", "cpu"]
    assert "| restrictions: TestRestrictions | cpu | 1 | 1 | 0 | 0 | 0 |" in table.read_text()
    written = file.read_text()
    assert _run(command).splitlines()[-1] == once.splitlines()[-1]
    assert file.read_text() == written


def _run(command: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fbcode.run", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_suites_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["others"])
    assert "invalid choice: 'others'" in capsys.readouterr().err
