# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.models.measure import Limits, group_rows
from benchmarks.models.row import Row, Verdict

_LIMITS = Limits(rounds=3, seconds=0.01, limit=60)
# A fake worker. Its arguments are the difference and the times per run, in seconds, to report.
_WORKER = """
import json, sys
difference, *seconds = sys.argv[1:]
for line in sys.stdin:
    if "prepare" in json.loads(line):
        answer = {"cpu": 2.0, "wall": 3.0, "difference": difference}
    else:
        each = float(seconds.pop(0))
        answer = {"cpu": each, "wall": 2 * each, "runs": 1}
    print(json.dumps(answer), flush=True)
"""


def _worker(*arguments: str) -> list[str]:
    return [sys.executable, "-c", _WORKER, *arguments]


def _rows(tmp_path: Path, limits: Limits = _LIMITS, **commands: list[str]) -> dict[str, Row]:
    programs = list(commands)
    rows = group_rows("torch/a", "infer", commands, programs, limits, tmp_path / "log", tmp_path)
    return {row.program: row for row in rows}


def test_ratios_are_those_of_a_round(tmp_path: Path) -> None:
    # The second round is slow for both programs. The torch process first reports three times for
    # `torch` alone, then three for the rounds in which it alternates with `fused`.
    torch = _worker("", "1", "10", "2", "1", "10", "2")
    rows = _rows(tmp_path, torch=torch, fused=_worker("", "4", "50", "10"))
    assert (rows["torch"].ratio, rows["torch"].cpu_seconds) == (1, 2)
    fused = rows["fused"]
    assert (fused.verdict, fused.ratio, fused.cpu_seconds) == (Verdict.PASSED, 5, 10)
    assert (fused.wall_seconds, fused.start_cpu, fused.start_wall) == (20, 2, 3)
    assert (str(fused.key), fused.rounds) == ("torch/a:infer:fused", 3)


def test_a_wrong_result_has_no_time(tmp_path: Path) -> None:
    rows = _rows(tmp_path, torch=_worker("", *"111"), strict=_worker("output: wrong", "1"))
    assert (rows["strict"].verdict, rows["strict"].cause) == (Verdict.DIFFERS, "output: wrong")
    assert rows["strict"].ratio is None


def test_an_error_an_end_and_a_hang_are_told_apart(tmp_path: Path) -> None:
    error = 'import json; input(); print(json.dumps({"error": "ValueError: no"}))'
    rows = _rows(
        tmp_path,
        torch=_worker("", *"111"),
        strict=[sys.executable, "-c", error],
        fused=[sys.executable, "-c", "input(); raise SystemExit(7)"],
    )
    assert (rows["strict"].verdict, rows["strict"].cause) == (Verdict.FAILED, "ValueError: no")
    assert rows["fused"].verdict == Verdict.CRASHED
    assert rows["fused"].cause == "its process ended with status 7"


def test_a_program_that_does_not_answer_is_slow(tmp_path: Path) -> None:
    asleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    answering = [*_worker("", *"111")]
    limits = Limits(rounds=1, seconds=0.01, limit=10)
    rows = _rows(tmp_path, limits, torch=answering, compile=asleep)
    assert (rows["compile"].verdict, rows["compile"].cause) == (
        Verdict.SLOW,
        "it took more than 10 s",
    )


def test_without_torch_on_the_cpu_all_rows_are_broken(tmp_path: Path) -> None:
    rows = _rows(tmp_path, torch=["/bin/false"], strict=["/bin/false"])
    assert {row.verdict for row in rows.values()} == {Verdict.BROKEN}
    assert rows["strict"].cause == "torch on the CPU: its process ended with status 1"
