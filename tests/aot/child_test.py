# SPDX-License-Identifier: Apache-2.0
"""Test that only the current request is lost if a child dies or hangs."""

from __future__ import annotations

import pytest

from tests.aot import child as child_module
from tests.aot.child import Child, Died, Hung
from tests.aot.child_scenarios import fail, serve


def test_a_child_answers_and_is_replaced_after_some_answers() -> None:
    with Child(serve, "x", seconds=60, most=2) as child:
        answers = [child.ask("a") for _ in range(3)]
    pids = [answer.split()[2] for answer in answers]
    assert all(answer.startswith("x a ") for answer in answers)
    assert pids[0] == pids[1] != pids[2]


@pytest.mark.parametrize(
    ("question", "message"), [("abort", "ended with SIGABRT"), ("exit", "ended with status 3")]
)
def test_after_a_death_the_next_question_has_another_child(question: str, message: str) -> None:
    with Child(serve, "x", seconds=60) as child:
        with pytest.raises(Died, match=message):
            child.ask(question)
        assert child.ask("b").startswith("x b ")


@pytest.mark.full
def test_cpu_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "_STUCK", 1000)  # on a busy machine, 1 s of CPU takes longer
    with Child(serve, "x", seconds=60) as child:
        child.ask("start")
        child.seconds = 1
        with pytest.raises(Hung, match="more than 1 s of CPU time"):
            child.ask("spin")
        child.seconds = 60
        assert child.ask("c").startswith("x c ")


def test_a_child_that_only_waits_is_stuck() -> None:
    with Child(serve, "x", seconds=60) as child:
        child.ask("start")
        child.seconds = 0.4
        with pytest.raises(Hung, match="no answer after 2 s"):
            child.ask("sleep")


def test_an_error_of_the_answer_is_raised_here() -> None:
    with Child(serve, "x", seconds=60) as child:
        with pytest.raises(RuntimeError, match="ValueError: from the child"):
            child.ask("raise")
        assert child.ask("d").startswith("x d ")


def test_a_child_that_cannot_start_is_an_error() -> None:
    with Child(fail, seconds=60) as child, pytest.raises(RuntimeError, match="status 4 at its"):
        child.ask("a")
