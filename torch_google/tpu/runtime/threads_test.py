# SPDX-License-Identifier: Apache-2.0
"""Threads can drop references without the GIL while the main thread waits in C++."""

from __future__ import annotations

import threading
from typing import Any

import jax
import pytest
import torch


def test_one_backward_pass_gives_back_what_it_no_longer_needs() -> None:
    live: list[int] = []
    y = torch.ones(100, device="tpu", requires_grad=True)
    for layer in range(40):
        y = y.sin()  # autograd saves the input of each sin()
        if layer in (1, 38):
            y.register_hook(lambda _: live.append(len(jax.live_arrays())))
    y.sum().backward()
    early, late = live
    assert late < early - 30


def test_a_training_loop_in_a_thread_that_the_main_one_joins_keeps_nothing() -> None:
    live: list[int] = []

    def train() -> None:
        weight = torch.ones(100, device="tpu", requires_grad=True)
        for _ in range(30):
            (weight * 1.5).sin().exp().sum().backward()
            weight.grad = None
            live.append(len(jax.live_arrays()))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert len(live) == 30
    assert max(live[5:]) <= max(live[:5]) + 5


@pytest.mark.parametrize("mode", ["strict", "debug", "fused"])
def test_threads_that_write_parts_of_one_tensor_keep_each_others_writes(mode: Any) -> None:
    rows = torch.zeros(2, 1 << 16, device="tpu")
    lost: list[tuple[int, int, float]] = []

    def write(number: int) -> None:
        row = rows[number]
        with torch.tpu.eager_mode(mode):
            for count in range(1, 250):
                row.add_(1)
                if (value := row[0].item()) != count:
                    lost.append((number, count, value))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert rows[:, -1].tolist() == [249.0, 249.0]
