# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import torch


def test_autocast_computes_products_in_bfloat16() -> None:
    x = torch.ones(4, 4, device="tpu")
    with torch.tpu.amp.autocast():
        assert torch.is_autocast_enabled("tpu")
        assert (x @ x).dtype == torch.bfloat16
    with torch.tpu.amp.autocast(dtype=torch.float16):
        assert (x @ x).dtype == torch.float16
    with torch.tpu.amp.autocast(enabled=False):
        assert (x @ x).dtype == torch.float32


def test_a_scaler_scales_on_this_device_and_skips_infinite_gradients() -> None:
    weight = torch.ones(2, device="tpu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.5)
    scaler = torch.tpu.amp.GradScaler(init_scale=4.0)
    for factor, expected in ((1.0, 0.5), (float("inf"), 0.5)):
        optimizer.zero_grad()
        loss = scaler.scale((weight * factor).sum())
        assert loss.device.type == "tpu"
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [expected] * 2
    assert scaler.get_scale() == 2.0


def test_a_function_with_custom_gradients_keeps_the_autocast_state() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.tpu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            assert x.dtype == torch.float32
            assert not torch.is_autocast_enabled("tpu")
            return x @ x

        @staticmethod
        @torch.tpu.amp.custom_bwd
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad

    x = torch.ones(2, 2, device="tpu", dtype=torch.bfloat16, requires_grad=True)
    with torch.tpu.amp.autocast():
        assert Product.apply(x).dtype == torch.float32
