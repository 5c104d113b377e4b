# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

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
