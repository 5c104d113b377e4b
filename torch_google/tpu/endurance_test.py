# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow over ten thousand iterations without host reads, in any execution mode."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tools.par.testing.budget import only_full

TURNS = 10_000
# The shape of the tensor that each loop updates. Leaking a thousand copies of it would add 64 MiB.
SHAPE = (64, 256)


def resident() -> int:
    """Return this process's resident set size in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def body() -> Callable[[torch.Tensor], torch.Tensor]:
    weight = torch.full((256, 256), 1e-3, device="tpu")

    def turn(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight).add_(1.0)

    return turn


@pytest.mark.full
@pytest.mark.parametrize("execution", ["fused", *only_full("strict", "debug", "compile")])
def test_a_loop_without_host_reads_takes_no_memory(execution: Any) -> None:
    turn = body()
    if execution == "compile":
        torch._dynamo.reset()
        turn = torch.compile(turn)
    with torch.tpu.eager_mode("strict" if execution == "compile" else execution), torch.no_grad():
        x = torch.ones(SHAPE, device="tpu")

        def loop(turns: int) -> tuple[int, int]:
            """Run `turns` iterations and return the peak live bytes and the peak resident bytes."""
            nonlocal x
            live = held = 0
            for number in range(turns):
                x = turn(x)
                if number % 100 == 0:
                    live = max(live, torch.tpu.memory_allocated())
                    held = max(held, resident())
            return live, held

        loop(1000)
        torch.tpu.synchronize()
        torch.tpu.wait_for_compiles()
        gc.collect()
        before, resident_before = torch.tpu.memory_allocated(), resident()
        torch.tpu.reset_metrics()
        torch.tpu.reset_peak_memory_stats()
        most, held = loop(TURNS)
        done = torch.tpu.metrics()
        assert done.misses == 0
        if execution == "fused":
            # Each recorded trace must be flushed (run as one program) because the loop repeats, and
            # for no other reason. The first trace begins before the loop, so it may need a separate
            # program.
            assert set(done.flushes) == {"repetition"}
            assert done.fused_misses <= 2
        else:
            assert done.compiles == 0
        few = 4 * x.nbytes
        assert most <= before + few
        assert torch.tpu.max_memory_allocated() <= before + few
        torch.tpu.synchronize()
        assert torch.tpu.memory_allocated() == before
        assert max(held, resident()) - resident_before < 48 << 20
    assert torch.isfinite(x).all()
