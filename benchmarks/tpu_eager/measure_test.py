# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import pytest

from benchmarks.tpu_eager import report
from benchmarks.tpu_eager.cases import CASES, PEERS
from benchmarks.tpu_eager.first_steps import FirstSteps
from benchmarks.tpu_eager.measure import Answers, Figure, Worker, summarize
from benchmarks.tpu_eager.torch_peers import SETTINGS


def answers(*seconds: float) -> list[dict[str, float]]:
    return [{"cpu": each, "wall": 2 * each, "count": 3, "value": 0.5} for each in seconds]


def test_ratios_are_those_of_a_round() -> None:
    rounds: Answers = {
        "torch": answers(1e-6, 10e-6, 2e-6),  # The second round was slow for all peers.
        "strict": answers(4e-6, 50e-6, 10e-6),
        "jax": [{"error": "ValueError: no"}],
    }
    figures = summarize(CASES["add"], [rounds])
    by_peer = {figure.peer: figure for figure in figures}
    assert [figure.peer for figure in figures] == list(CASES["add"].peers)
    assert by_peer["strict"].cpu == pytest.approx(10e-6)
    assert by_peer["strict"].ratio == pytest.approx(5)
    assert by_peer["jax"] == Figure("jax", error="ValueError: no")
    assert by_peer["fused"].error == "absent"
    table = report.markdown("add", figures, threads=2)
    assert "x + y of 8x8; threads: 2" in table
    assert "| strict | 10.00 | 5.00 | 5.00 to 5.00 | 20.00 | 0.5 |" in table
    assert "| jax | ValueError: no | | | | |" in table


def test_processes_that_differ_show() -> None:
    rounds = [
        {"torch": answers(1e-6, 2e-6), "strict": answers(each * 1e-6, 2 * each * 1e-6)}
        for each in (4, 2, 5)
    ]
    (_, strict, *_) = summarize(CASES["add"], rounds)
    assert (strict.ratio, strict.lowest, strict.highest) == pytest.approx((4, 2, 5))
    assert "| 4.00 | 2.00 to 5.00 |" in report.markdown("add", [strict], threads=1)


def test_without_the_first_peer_there_are_no_ratios() -> None:
    (_, strict, *_) = summarize(CASES["add"], [{"strict": answers(1e-6)}])
    assert (strict.cpu, strict.ratio) == (1e-6, None)
    assert "| strict | 1.00 |  |  | 2.00 | 0.5 |" in report.markdown("add", [strict], threads=1)


def test_fresh_processes_and_results() -> None:
    row = FirstSteps("fused", 10.0, 12.0, 1.0, 1.5)
    assert "| fused | 10.00 | 1.00 | 0.10 | 12.00 | 1.50 | 0.12 |" in report.first_steps(
        [row], case="gpt", threads=1
    )
    (warm,) = report.first_step_results("gpt", [row], threads=1)
    assert (warm.subject, warm.cpu_ratio, warm.cpu_seconds, warm.runs) == ("fused", 0.1, 1.0, 3)
    rows = [Figure("torch", 1.0, 2.0, 1.0, 0.9, 1.1), Figure("jax", error="absent")]
    (figure,) = report.results("add", rows, threads=2, runs=15)
    assert (figure.case, figure.peer, figure.threads) == ("x + y of 8x8", "torch", 2)
    assert (figure.cpu_ratio, figure.note) == (1.0, "processes from 0.90 to 1.10")


def test_a_peer_answers_from_a_process_of_its_own() -> None:
    worker = Worker("torch", python="/bin/false", threads=1)
    try:
        assert "ended with status" in worker.ask("add", 0.01)["error"]
    finally:
        worker.close()


def test_every_peer_has_cases_and_every_case_a_base() -> None:
    assert set(PEERS) >= {"torch", "strict", "fused", "compile", "inductor", "jax", "torchax"}
    assert set(PEERS) == {*SETTINGS, "jax", "torchax"}
    assert {case.peers[0] for case in CASES.values()} == {"torch"}
