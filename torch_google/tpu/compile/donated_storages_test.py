# SPDX-License-Identifier: Apache-2.0
"""Storages whose arrays a compiled program donates, while other threads use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
import torch

from torch_google.tpu.runtime import metrics

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


def _before_the_store(
    monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], event: str = "call"
) -> None:
    """Call `action` once: after the next graph's program ran, and before its values are stored."""
    graph = metrics.graph

    def acting(name: str) -> None:
        graph(name)
        if name == event:
            monkeypatch.setattr(metrics, "graph", graph)
            action()

    monkeypatch.setattr(metrics, "graph", acting)


_READS: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x.tolist(),
    lambda x: x.cpu().tolist(),
    lambda x: (x + 0).tolist(),
    lambda x: x[:].add_(0).tolist(),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("read", _READS, ids=["tolist", "cpu", "operator", "write"])
def test_a_read_in_another_thread_waits_for_the_new_values(
    read: Callable[[torch.Tensor], Any], dynamic: bool, monkeypatch: pytest.MonkeyPatch
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

        _before_the_store(monkeypatch, start)
        doubled = step(x)
        assert futures[0].result() == [2.0] * _SIZE
    assert torch.tpu.metrics().graphs.get("copy", 0) <= 1
    assert doubled.tolist() == [4.0] * _SIZE
    assert x.tolist() == [2.0] * _SIZE


def test_an_error_after_the_program_ran_reaches_the_next_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = torch.compile(_count_up, backend="tpu")
    x = torch.zeros(_SIZE, device="tpu")
    step(x)

    def interrupt() -> None:
        raise KeyboardInterrupt("during the run")

    _before_the_store(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        step(x)
    with pytest.raises(KeyboardInterrupt, match="during the run"):
        x.tolist()
    x.fill_(5)
    step(x)
    assert x.tolist() == [6.0] * _SIZE


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
