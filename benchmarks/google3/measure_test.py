# SPDX-License-Identifier: Apache-2.0
"""Test that both functions run equally often and alternate, and that CPU times include children."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.google3 import __main__ as program
from benchmarks.google3 import imports, rate, records, report
from benchmarks.google3.row import Row, Sizes, measure


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

    def library(directory: Path) -> None:
        calls.append("library")
        _spin(0.15)

    row = Row("spinning", plain, library, 1.05, lambda _: calls.append("prepare"))
    figure = measure(row, tmp_path, rounds=3)
    assert calls.count("plain") == calls.count("library") == 4
    assert calls[::2] == ["prepare"] * 8
    assert calls[1::2][:4] == ["library", "plain", "plain", "library"]
    assert 2 < figure.cpu_ratio < 4
    assert "| spinning | 1.05 |" in report.markdown([figure])
    ratios, seconds = report.results([figure], rounds=3)
    assert (ratios.case, ratios.cpu_ratio, ratios.runs) == ("spinning", figure.cpu_ratio, 3)
    assert (seconds.subject, seconds.cpu_seconds) == ("without it", figure.plain_cpu)


def test_the_work_of_other_processes_counts(tmp_path: Path) -> None:
    def forked(directory: Path) -> None:
        child = os.fork()
        if child == 0:
            _spin(0.2)
            os._exit(0)
        os.waitpid(child, 0)

    figure = measure(Row("forked", lambda _: _spin(0.1), forked, None), tmp_path, rounds=1)
    assert figure.cpu_ratio > 1.4


def test_what_was_found_is_in_the_table(tmp_path: Path) -> None:
    descriptions = iter(["not counted", "2 lost", "0 lost"])
    row = Row(
        "rate",
        lambda _: _spin(0.01),
        lambda _: _spin(0.04),
        None,
        describe=lambda _: next(descriptions),
        most_added=0.030,
    )
    figure = measure(row, tmp_path, rounds=2)
    assert figure.descriptions == ("2 lost", "0 lost")
    assert 0.02 < figure.cpu_added < 0.2
    assert "| rate | +30 ms |" in report.markdown([figure])
    assert "| 2 lost; 0 lost |" in report.markdown([figure])


def test_both_streams_write_the_same_lines(tmp_path: Path) -> None:
    for row in records.rows(Sizes(0, 3, 0)):
        lines = []
        for number, work in enumerate((row.plain, row.library)):
            directory = tmp_path / row.name / str(number)
            directory.mkdir(parents=True)
            work(directory)
            stderr = (directory / records.STDERR).read_text()
            for file in directory.glob(f"{records.FILES}/*"):
                assert file.read_text() == stderr
            lines.append(re.sub(r"(?m)^I\d{4} \d\d:\d\d:\d\d\.\d{6} ", "", stderr))
            assert lines[-1] != stderr
        assert lines[0] == lines[1]
        assert len(lines[0].splitlines()) == 3


def test_lost_lines_are_found(tmp_path: Path) -> None:
    (row,) = rate.rows(Sizes(0, 0, 0.05))
    row.library(tmp_path)
    assert row.describe is not None
    assert row.describe(tmp_path).endswith(", 0 of 200 lost")
    (log, *_) = (tmp_path / records.FILES).iterdir()
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-2]))
    assert row.describe(tmp_path).endswith(", 2 of 200 lost")


def test_the_import_has_our_answers_on_one_side_only() -> None:
    show = "print(torch._seam.logs.file_handler.replaced, 'torch_google' in sys.modules)"
    if find_spec("torch._seam") is None:
        show = "print('torch.google' in sys.modules, 'torch_google' in sys.modules)"
    for start, output in ((imports.PLAIN, "False False\n"), (imports.OURS, "True True\n")):
        done = subprocess.run(
            [sys.executable, "-c", f"{start}\nimport sys\n{show}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == output, done.stderr


def test_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--bytes", "80000", "--records", "50", "--seconds", "0.05"]
    arguments = [*sizes, "--rounds", "1"]
    assert program.main([*arguments, "--json", str(tmp_path / "figures.json")]) == 0
    assert "| torch.load, beside open() | 1.05 |" in (table := capsys.readouterr().out)
    assert "| +30 ms |" in table
    assert ", 0 of 200 lost |" in table
    assert len(results.read(tmp_path / "figures.json").figures) >= 2 * 9
