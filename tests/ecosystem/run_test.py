# SPDX-License-Identifier: Apache-2.0
"""Test that the command reads a child's results, and survives a child that crashes or hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ecosystem import cases, results, run, source
from tests.ecosystem.case import table
from tests.ecosystem.results import Row, Verdict, one_line

_KEYS = ["timm/resnet:strict", "timm/resnet:fused", "timm/swin:strict"]


def _rows(
    tmp_path: Path, entries: list[dict[str, str]], end: str, *, seconds: float = 300.0
) -> tuple[list[Row], list[str]]:
    """Run a child that writes `entries` to its journal and then executes the code `end`.

    `seconds` limits how long `end` may run. The limit starts after the child has written `entries`.
    """
    journal = tmp_path / "journal"
    journal.write_text("")
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    program = f"open({str(journal)!r}, 'a').write({text!r}); {end}"
    todo = list(_KEYS)
    with subprocess.Popen([sys.executable, "-c", f"import os, time; {program}"]) as child:
        while journal.read_text() != text and child.poll() is None:
            time.sleep(0.01)
        rows = list(run._rows(child, journal, todo, seconds=seconds))
    return rows, todo


def _ends(key: str, verdict: str, cause: str = "") -> dict[str, str]:
    return {"ends": key, "verdict": verdict, "cause": cause}


def test_rows_of_a_child_that_ends_well(tmp_path: Path) -> None:
    entries = [_ends(key, "passed") for key in _KEYS[:2]]
    entries.append(_ends(_KEYS[2], "differs", "losses.0: 1 is not 2"))
    rows, todo = _rows(tmp_path, entries, "os._exit(0)")
    assert [row.verdict for row in rows] == [Verdict.PASSED, Verdict.PASSED, Verdict.DIFFERS]
    assert rows[2].cause == "losses.0: 1 is not 2"
    assert todo == []


def test_the_case_that_ends_the_process_crashed_and_later_ones_remain(tmp_path: Path) -> None:
    entries = [{"begins": "timm/resnet:cpu"}, _ends(_KEYS[0], "passed"), {"begins": _KEYS[1]}]
    rows, todo = _rows(tmp_path, entries, "os.abort()")
    assert [(row.mode, row.verdict) for row in rows] == [
        ("strict", Verdict.PASSED),
        ("fused", Verdict.CRASHED),
    ]
    assert rows[1].cause == "its process exited -6"
    assert todo == _KEYS[2:]


def test_a_case_that_hangs_is_slow(tmp_path: Path) -> None:
    entries = [_ends(_KEYS[0], "passed"), {"begins": _KEYS[1]}]
    rows, todo = _rows(tmp_path, entries, "time.sleep(1000)", seconds=1.0)
    assert rows[1].verdict is Verdict.SLOW
    assert todo == _KEYS[2:]


def test_a_case_that_ends_the_process_on_the_cpu_is_broken(tmp_path: Path) -> None:
    rows, todo = _rows(tmp_path, [{"begins": "timm/resnet:cpu"}], "os._exit(3)")
    assert [(row.mode, row.verdict) for row in rows] == [("strict", Verdict.BROKEN)]
    assert todo == _KEYS[1:]


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


def test_a_module_that_is_added_during_a_run_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(table())
    Path(tmp_path, "added.py").write_text("raise RuntimeError")
    monkeypatch.setattr(cases, "__file__", str(tmp_path / "__init__.py"))
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
