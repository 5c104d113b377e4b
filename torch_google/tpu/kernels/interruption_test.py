# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during a trace takes effect after it, and later calls use the traced program."""

from __future__ import annotations

import signal

import jax
import pytest
import torch

from torch_google.tpu import custom_kernel


@pytest.mark.parametrize("mode", ["strict", "fused", "compile"])
def test_a_trace_ends_before_the_interruption(mode: str) -> None:
    traces: list[str] = []

    @custom_kernel(f"interruption_test::{mode}")
    def doubled(x: jax.Array) -> jax.Array:
        traces.append("began")
        if len(traces) == 1:
            signal.raise_signal(signal.SIGINT)
        traces.append("ended")
        return x + x

    call = torch.compile(doubled, backend="tpu") if mode == "compile" else doubled
    x = torch.arange(3.0, device="tpu")

    def total() -> float:
        with torch.tpu.eager_mode("fused" if mode == "fused" else "strict"):
            return float(call(x).sum())

    with pytest.raises(KeyboardInterrupt):
        total()
    assert traces[:2] == ["began", "ended"]
    assert total() == 6.0
