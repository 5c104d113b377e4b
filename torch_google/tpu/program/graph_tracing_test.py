# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from torch_google.tpu import tracing_lock
from torch_google.tpu.program.graph_tracing import trace_function


def test_threads_trace_at_once() -> None:
    threads, traces = 4, 5
    start = threading.Barrier(threads)
    before = nn.Module.__call__, nn.Module.__getattr__

    def slow(x: torch.Tensor) -> list[torch.Tensor]:
        time.sleep(0.002)  # another thread runs while this one traces
        return [x + 1]

    def work(_: int) -> list[int]:
        start.wait()
        graphs = [
            trace_function(slow, [torch.ones(2, device="meta")], "slow") for _ in range(traces)
        ]
        return [len(graph.graph.nodes) for graph in graphs]

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(work, range(threads))) == [[3] * traces] * threads
    assert (nn.Module.__call__, nn.Module.__getattr__) == before


def _trace(wait: threading.Event, done: threading.Event) -> int:
    def slow(x: torch.Tensor) -> list[torch.Tensor]:
        wait.set()
        assert done.wait(60)
        return [x + 1]

    graph = trace_function(slow, [torch.ones(2, device="meta")], "slow")
    return len(graph.graph.nodes)


def test_another_thread_calls_a_compiled_function() -> None:
    compiled = torch.compile(lambda x: x + 1)
    x = torch.ones(2, device="tpu")
    assert compiled(x).tolist() == [2, 2]
    traces, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        traced = pool.submit(_trace, traces, done)
        assert traces.wait(60)
        try:
            assert compiled(x).tolist() == [2, 2]
        finally:
            done.set()
        assert traced.result() == 3


def test_a_trace_that_waits_for_another_thread_s_trace_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing_lock, "_SECONDS", 0.1)
    traces, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        traced = pool.submit(_trace, traces, done)
        assert traces.wait(60)
        with tracing_lock.tracing():  # after 0.1 s, although the other thread has the lock
            done.set()
        assert traced.result() == 3


def test_a_child_that_is_forked_during_a_trace_can_trace() -> None:
    traces, done = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        traced = pool.submit(_trace, traces, done)
        assert traces.wait(60)
        child = os.fork()
        if child == 0:
            began = time.monotonic()
            with tracing_lock.tracing():
                os._exit(int(time.monotonic() - began > 5))
        done.set()
        assert os.waitpid(child, 0)[1] == 0
        assert traced.result() == 3
