# SPDX-License-Identifier: Apache-2.0
"""Both sides are run as often, in turn, and the ratio is that of the work."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from benchmarks.google3 import __main__ as program
from benchmarks.google3 import report
from benchmarks.google3.row import Row, measure


def _spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_ratios_are_of_the_work(tmp_path: Path) -> None:
    calls: list[str] = []

    def plain(directory: Path) -> None:
        assert directory == tmp_path
        calls.append("plain")
        _spin(0.05)

    def ours(directory: Path) -> None:
        calls.append("ours")
        _spin(0.15)

    row = Row("spinning", plain, ours, 1.05, lambda _: calls.append("prepare"))
    figure = measure(row, tmp_path, rounds=3)
    assert calls.count("plain") == calls.count("ours") == 4
    assert calls[::2] == ["prepare"] * 8
    assert calls[1::2][:4] == ["ours", "plain", "plain", "ours"]
    assert 2 < figure.cpu_ratio < 4
    assert "| spinning | 1.05 |" in report.markdown([figure])
    assert json.loads(report.as_json([figure]))[0]["name"] == "spinning"


def test_the_work_of_other_processes_counts(tmp_path: Path) -> None:
    def forked(directory: Path) -> None:
        child = os.fork()
        if child == 0:
            _spin(0.2)
            os._exit(0)
        os.waitpid(child, 0)

    figure = measure(Row("forked", lambda _: _spin(0.1), forked, None), tmp_path, rounds=1)
    assert figure.cpu_ratio > 1.4


def test_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--subjects", "files", "--bytes", "80000", "--rounds", "1"]
    assert program.main([*arguments, "--json", str(tmp_path / "figures.json")]) == 0
    assert "| torch.load, beside open() | 1.05 |" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "figures.json").read_text())) >= 4
