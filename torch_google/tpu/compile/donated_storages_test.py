# SPDX-License-Identifier: Apache-2.0
"""Storages whose arrays a compiled program donates, while other threads use them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from torch_google.tpu import _C
from torch_google.tpu.compile.device_adapter import CpuAdapter
from torch_google.tpu.torch_hooks.compile_adapter import TpuAdapter

_SIZE = 4096  # large enough that XLA reuses a donated buffer


@pytest.fixture(autouse=True)
def _programs() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(False)
    yield
    torch.tpu.set_cpu_kernels(before)


def _count_up(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@pytest.fixture
def actions(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return a list of actions. Each run of a program calls the next one, before values are stored.

    Programs that exist already call none of them.
    """
    waiting: list[Callable[[], object]] = []
    program = TpuAdapter.program

    def acting(self: TpuAdapter, executable: Any) -> Any:
        def run(*inputs: Any) -> Any:
            outputs = executable(*inputs)
            if waiting:
                waiting.pop(0)()
            return outputs

        # Like JAX's function for an executable, a partial has no Python frame of its own.
        return program(self, cast(Any, SimpleNamespace(_call=partial(run))))

    monkeypatch.setattr(TpuAdapter, "program", acting)
    return waiting


_READS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.tolist(),
    lambda x: x.cpu().tolist(),
    lambda x: (x + 0).tolist(),
    lambda x: x[:].add_(0).tolist(),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("read", _READS, ids=["tolist", "cpu", "operator", "write"])
def test_a_read_in_another_thread_waits_for_the_new_values(
    read: Callable[[torch.Tensor], Any], dynamic: bool, actions: list[Callable[[], object]]
) -> None:
    step = torch.compile(_count_up, backend="tpu", dynamic=dynamic)
    x = torch.zeros(_SIZE, device="tpu")
    step(x)
    read(x)
    read(torch.ones(_SIZE, device="tpu"))
    futures: list[Future[Any]] = []
    with ThreadPoolExecutor(1) as pool:

        def start() -> None:
            futures.append(pool.submit(read, x))
            wait(futures, timeout=0.2)

        actions.append(start)
        doubled = step(x)
        assert futures[0].result() == [2.0] * _SIZE
    assert torch.tpu.metrics().graphs.get("copy", 0) <= 1
    assert doubled.tolist() == [4.0] * _SIZE
    assert x.tolist() == [2.0] * _SIZE


def test_an_error_after_the_program_ran_reaches_the_next_reader(
    actions: list[Callable[[], object]],
) -> None:
    step = torch.compile(_count_up, backend="tpu")
    x = torch.zeros(_SIZE, device="tpu")
    step(x)

    def interrupt() -> None:
        raise KeyboardInterrupt("during the run")

    actions.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        step(x)
    with pytest.raises(KeyboardInterrupt, match="during the run"):
        x.tolist()
    x.fill_(5)
    step(x)
    assert x.tolist() == [6.0] * _SIZE


class _Interruption(Exception):
    pass


@pytest.fixture
def _alarm() -> Iterator[None]:
    """Make SIGALRM raise _Interruption. A shell's background jobs ignore SIGINT."""

    def interrupt(*_: Any) -> None:
        raise _Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_interruption_during_a_run_keeps_the_new_values(
    dynamic: bool, actions: list[Callable[[], object]]
) -> None:
    """JAX makes the first call of a program in Python, where a signal handler could run."""
    step = torch.compile(_count_up, backend="tpu", dynamic=dynamic)
    x = torch.zeros(_SIZE, device="tpu")
    actions.append(lambda: signal.raise_signal(signal.SIGALRM))
    with pytest.raises(_Interruption):
        step(x)
    assert not actions
    assert x.tolist() == [1.0] * _SIZE


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Make SIGINT raise KeyboardInterrupt. A shell's background jobs ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize("dynamic", [False, True])
def test_ctrl_c_during_a_run_keeps_new_values_on_the_cpu(
    dynamic: bool, actions: list[Callable[[], object]]
) -> None:
    """An optimizer's parameters may be on the device, and its numbers of steps on the CPU."""

    def both(x: torch.Tensor, steps: torch.Tensor) -> None:
        x.add_(1)
        steps.add_(1)

    step = torch.compile(both, backend="tpu", dynamic=dynamic)
    x, steps = torch.zeros(_SIZE, device="tpu"), torch.zeros(_SIZE)
    actions.append(lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        step(x, steps)
    assert not actions
    assert (x[0].item(), steps[0].item()) == (1.0, 1.0)


@pytest.mark.usefixtures("_ctrl_c")
def test_ctrl_c_during_a_run_on_the_cpu_keeps_all_new_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(1)
        y.add_(1)

    step = torch.compile(both, backend="tpu")
    x, y = torch.zeros(_SIZE), torch.zeros(_SIZE)
    store = CpuAdapter.store

    def interrupt_once(*args: Any) -> None:
        store(*args)
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CpuAdapter, "store", interrupt_once)
    with pytest.raises(KeyboardInterrupt):
        step(x, y)
    assert (x[0].item(), y[0].item()) == (1.0, 1.0)


@pytest.mark.usefixtures("_alarm")
def test_interruptions_at_any_time_lose_no_value() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(1)
        y.add_(1)

    step = torch.compile(both, backend="tpu")
    x, y = torch.zeros(_SIZE, device="tpu"), torch.zeros(_SIZE, device="tpu")
    step(x, y)
    # Let JAX trace everything that a step needs, including the copy of an array in use: an
    # exception while it traces can make later calls raise RecursionError.
    in_use = [_C.value(x), _C.value(y)]
    step(x, y)
    del in_use
    x[0].item()
    random = Random(0)
    interrupted = 0
    for _ in range(100):
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 2e-3))
            for _ in range(1000):
                step(x, y)
        except _Interruption:
            interrupted += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert x[0].item() == y[0].item()
    assert interrupted > 50
    assert x[0].item() > 0


def test_an_error_before_the_program_runs_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    step = torch.compile(lambda x: x.add_(torch.rand_like(x)), backend="tpu")
    x = torch.zeros(_SIZE, device="tpu")
    step(x)
    expected = x.tolist()
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> Any:
            raise RuntimeError("no numbers")

        patch.setattr("torch_google.tpu.torch_hooks.compile_adapter.TpuAdapter.draw", fail)
        with pytest.raises(RuntimeError, match="no numbers"):
            step(x)
    assert x.tolist() == expected
    step(x)
    assert x.tolist() != expected
