# SPDX-License-Identifier: Apache-2.0
"""Programs are compiled in other threads before their first run."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from torch_google.tpu.runtime import compiler
from torch_google.tpu.runtime.compile_ahead import AheadCompiler


def test_tasks_run_in_order_in_the_background() -> None:
    made: list[tuple[int, str]] = []
    ahead = AheadCompiler("test-ahead", 1)
    for number in range(5):
        ahead.submit(lambda n=number: made.append((n, threading.current_thread().name)))  # type: ignore[misc]
    ahead.wait()
    assert made == [(number, "test-ahead-0") for number in range(5)]


def test_a_thread_that_needs_a_program_compiles_it_and_then_others() -> None:
    started, release = threading.Event(), threading.Event()
    made: list[int] = []

    def first() -> int:
        started.set()
        assert release.wait(60)
        return 0

    def make(number: int) -> int:
        made.append(number)
        if number == 2:
            release.set()
        return number

    ahead = AheadCompiler("test-ahead", 1)
    blocked = ahead.submit(first)
    assert started.wait(60)
    one, two = (ahead.submit(lambda n=n: make(n)) for n in (1, 2))  # type: ignore[misc]
    assert one.result() == 1
    assert made == [1]
    # While the other thread compiles the program, this thread compiles the next one.
    assert blocked.result() == 0
    assert made == [1, 2]
    assert two.result() == 2
    ahead.wait()


def test_after_an_error_the_program_is_compiled_again() -> None:
    divisors = [0, 0, 2]
    ahead = AheadCompiler("test-ahead", 1)
    task = ahead.submit(lambda: 6 // divisors.pop(0))
    ahead.wait()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            task.result()
    assert task.result() == task.result() == 3


def test_after_an_interruption_the_program_can_be_compiled_again() -> None:
    attempts: list[int] = []
    hold, held = threading.Event(), threading.Event()

    def block() -> None:
        held.set()
        assert hold.wait(60)

    def make() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return "made"

    ahead = AheadCompiler("test-ahead", 1)
    ahead.submit(block)
    assert held.wait(60)
    task = ahead.submit(make)
    with pytest.raises(KeyboardInterrupt):
        task.result()
    hold.set()
    assert task.result() == "made"
    ahead.wait()


def test_a_failed_compilation_is_an_error_of_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, *_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError(f"{name}: no room")

    with torch.tpu.eager_mode("fused"):
        x = torch.ones(7, 13, device="tpu") * 2
        assert x.sum().item() == 182
        monkeypatch.setattr(compiler, "compiled", fail)
        y = torch.atan(x) + 1
        with pytest.raises(torch.OutOfMemoryError, match="no room"):
            y.cpu()
        monkeypatch.undo()
        assert x.sum().item() == 182
        torch.testing.assert_close(torch.atan(x).cpu(), torch.atan(torch.full((7, 13), 2.0)))


def test_a_graph_of_many_new_operators_gives_the_cpu_s_values() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for width in range(1, 12):
            x = torch.nn.functional.pad(x, (1, 0)).cos() / width
        return x

    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    with torch.tpu.eager_mode("fused"):
        actual = chain(x.to("tpu"))
        torch.testing.assert_close(actual.cpu(), chain(x))
