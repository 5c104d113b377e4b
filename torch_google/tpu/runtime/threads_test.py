# SPDX-License-Identifier: Apache-2.0
"""What threads give back without the GIL, while the main thread waits for them in C."""

from __future__ import annotations

import threading

import jax
import torch


def test_one_backward_pass_gives_back_what_it_no_longer_needs() -> None:
    live: list[int] = []
    y = torch.ones(100, device="tpu", requires_grad=True)
    for layer in range(40):
        y = y.sin()  # which keeps its input
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
