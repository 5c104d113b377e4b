# SPDX-License-Identifier: Apache-2.0
"""Test which cases the command runs, and that several commands record rows concurrently."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ecosystem import cases, device_check, results, run, source
from tests.ecosystem.case import table
from tests.ecosystem.results import Row, Verdict, one_line


def test_a_cause_is_one_line_without_paths_and_addresses() -> None:
    assert one_line("\nE: /usr/lib/x/y.so at 0x7fff12345678 <\nmore") == "E: y.so at 0x... <"
    assert len(one_line("x" * 500)) == 160


def test_a_stale_case_runs_again_and_a_current_one_does_not() -> None:
    case = table()["timm/resnet"]
    current = Row("timm", "1", "resnet", "strict", Verdict.PASSED, "", source.digest(case))
    before = {row.key: row for row in (current, replace(current, mode="fused", source=""))}
    keys = list(run._chosen([], set(), before))
    assert "timm/resnet:strict" not in keys
    assert "timm/resnet:fused" in keys


def test_without_the_device_the_command_fails_and_records_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(device_check, "_PROBE", "raise RuntimeError('no device')")
    monkeypatch.setattr(run, "record", lambda row: pytest.fail("a row was recorded"))
    assert run.main(["timm/resnet:strict"]) == 2
    error = capsys.readouterr().err
    assert "cannot use the device tpu, so nothing ran" in error
    assert "RuntimeError: no device" in error


def test_a_module_that_is_added_during_a_run_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(table())
    Path(tmp_path, "added.py").write_text("raise RuntimeError")
    monkeypatch.setattr(cases, "__path__", [str(tmp_path)])
    assert table() == before


def test_two_processes_record_rows_in_the_same_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.ecosystem import run;"
        "from tests.ecosystem.results import Row, Verdict;"
        "[run.record(Row(sys.argv[1], '1', str(i), 'strict', Verdict.PASSED),"
        f" Path({str(tmp_path)!r}, 'results.json'), Path({str(tmp_path)!r}, 'TABLE.md'))"
        " for i in range(20)]"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": paths}
    children = [subprocess.Popen([*command, name], env=environment) for name in ("a", "b")]
    assert [child.wait() for child in children] == [0, 0]
    assert len(results.read(tmp_path / "results.json")) == 40
