# SPDX-License-Identifier: Apache-2.0
"""Reordering matmuls does not change results in any mode."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from torch_google.tpu.program import product_reordering


@pytest.mark.parametrize("wide", ["out", "in"])
@pytest.mark.parametrize("mode", ["strict", "fused", "compile"])
def test_gradients_of_weights(mode: str, wide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    products = []

    def product(*args: Any) -> Any:
        products.append(args)
        return original(*args)

    original = product_reordering._product
    monkeypatch.setattr(product_reordering, "_product", product)
    # Each mode uses its own sizes, so that it compiles its own programs.
    rows = {"strict": 320, "fused": 328, "compile": 336}[mode]
    layer = nn.Linear(128, 768) if wide == "out" else nn.Linear(768, 128)
    device_layer = deepcopy(layer).to("tpu")
    x = torch.randn(2, rows, layer.in_features)
    layer(x).square().mean().backward()
    called = torch.compile(device_layer) if mode == "compile" else device_layer
    with torch.tpu.eager_mode("fused" if mode == "fused" else "strict"):
        for _ in range(3):  # in fused mode, a trace's first run executes operators one by one
            device_layer.zero_grad()
            called(x.to("tpu")).square().mean().backward()
            torch.tpu.wait_for_compiles()
        for mine, its in zip(device_layer.parameters(), layer.parameters(), strict=True):
            assert mine.grad is not None
            assert its.grad is not None
            assert mine.grad.stride() == its.grad.stride()
            torch.testing.assert_close(mine.grad.cpu(), its.grad, rtol=1e-4, atol=1e-6)
    assert products
