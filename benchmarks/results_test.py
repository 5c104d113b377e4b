# SPDX-License-Identifier: Apache-2.0
"""Test that results survive a round trip, and that the error for an invalid file names the key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.results import Figure, Machine, Results

_FIGURE = Figure(case="Warm start", subject="PAR", peer="venv", runs=7, cpu_ratio=0.5)
_RESULTS = Results(
    benchmark="par_startup",
    date="2026-11-23",
    commit="0123abcd",
    machine=Machine(2, 24, "Debian 12"),
    figures=(_FIGURE,),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    results.save(tmp_path / "run.json", _RESULTS)
    assert results.read(tmp_path / "run.json") == _RESULTS
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_run_of_today_describes_this_machine(tmp_path: Path) -> None:
    details = {"releases": {"a": 1}}
    results.write(tmp_path / "run.json", "par_startup", [_FIGURE], details=details, note="No GPU.")
    run = results.read(tmp_path / "run.json")
    assert (run.figures, run.details, run.note) == ((_FIGURE,), details, "No GPU.")
    assert re.fullmatch(r"\d+ cores, \d+ GB, [^/]+; load [\d.]+ at the end", run.machine.words())
    assert run.commit


def _written(directory: Path, change: dict[str, Any]) -> Path:
    results.save(directory / "run.json", _RESULTS)
    fields = json.loads((directory / "run.json").read_text()) | change
    (directory / "run.json").write_text(json.dumps(fields))
    return directory / "run.json"


_ROW = {"case": "a", "subject": "b"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"figure": []}, "run.json: unknown key 'figure'. Known are benchmark, date"),
        ({"date": "23 Nov"}, "run.json: date is '23 Nov', expected YYYY-MM-DD"),
        ({"benchmark": ""}, "run.json: benchmark is '', expected words"),
        ({"machine": {"cores": 2, "memory_gb": 4}}, "run.json: machine: no 'system'. Add it"),
        (
            {"machine": {"cores": 2, "memory_gb": 4, "system": "/home/a"}},
            "run.json: machine has a path: '2 cores, 4 GB, /home/a'. Describe it in words",
        ),
        ({"figures": [_ROW]}, "figures[0]: no number. Add what was measured, as cpu_ratio"),
        ({"figures": [_ROW | {"cpu_ratio": 1}]}, "figures[0]: a ratio without a 'peer'"),
        ({"figures": [_ROW | {"cpu_seconds": "1"}]}, "cpu_seconds is '1', expected a number"),
        ({"figures": [_ROW | {"cpu_s": 1}]}, "figures[0]: unknown key 'cpu_s'"),
        ({"figures": [_ROW | {"number": float("nan")}]}, "number is nan, expected a finite number"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = _written(tmp_path, change)
    with pytest.raises(results.ResultsError, match=re.escape(message)):
        results.read(path)


def test_a_figure_without_a_number_leaves_the_older_file(tmp_path: Path) -> None:
    results.save(tmp_path / "run.json", _RESULTS)
    with pytest.raises(results.ResultsError, match="no number"):
        results.write(tmp_path / "run.json", "par_startup", [Figure(case="a", subject="b")])
    assert results.read(tmp_path / "run.json") == _RESULTS
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
