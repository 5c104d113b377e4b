# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn


def product(dtype: torch.dtype | None = None) -> torch.dtype:
    x = torch.ones(2, 2, device="tpu")
    with torch.autocast("tpu", dtype=dtype):
        return (x @ x).dtype


def test_bfloat16_in_every_thread() -> None:
    dtypes: list[torch.dtype] = [product()]
    thread = threading.Thread(target=lambda: dtypes.append(product()))
    thread.start()
    thread.join()
    assert dtypes == [torch.bfloat16] * 2
    assert torch.get_autocast_dtype("tpu") == torch.bfloat16


def test_a_new_thread_that_has_chosen_keeps_its_choice() -> None:
    dtypes: list[torch.dtype] = []

    def choose() -> None:
        torch.set_autocast_dtype("tpu", torch.float16)
        dtypes.append(product())

    thread = threading.Thread(target=choose)
    thread.start()
    thread.join()
    assert dtypes == [torch.float16]


def test_another_dtype_for_a_call_and_for_a_thread() -> None:
    assert product(torch.float16) == torch.float16
    assert product() == torch.bfloat16
    torch.set_autocast_dtype("tpu", torch.float16)
    try:
        assert product() == torch.float16
    finally:
        torch.set_autocast_dtype("tpu", torch.bfloat16)


def test_a_dtype_that_is_not_supported_warns_and_disables() -> None:
    with pytest.warns(UserWarning, match="only supports dtypes of torch.bfloat16, torch.float16"):
        assert product(torch.float64) == torch.float32


def test_nesting_and_decorating() -> None:
    x = torch.ones(2, 2, device="tpu")

    @torch.autocast("tpu")
    def multiply() -> torch.Tensor:
        return x @ x

    assert multiply().dtype == torch.bfloat16
    with torch.autocast("tpu"):
        assert torch.is_autocast_enabled("tpu")
        with torch.autocast("tpu", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
        assert torch.cat([x, x.bfloat16()]).dtype == torch.float32
    assert not torch.is_autocast_enabled("tpu")


def test_training_is_near_the_cpus() -> None:
    losses_by_device = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        model.to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(1)
        inputs = torch.randn(6, 8, generator=generator).to(device)
        labels = torch.arange(6).to(device) % 4
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16):
                result = model(inputs)
                loss = nn.functional.cross_entropy(result, labels)
            assert (result.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
            loss.backward()
            weight = model[0].weight
            assert isinstance(weight, nn.Parameter)
            assert weight.grad is not None
            assert weight.grad.dtype == torch.float32
            optimizer.step()
            losses.append(loss.item())
        losses_by_device.append(losses)
    assert losses_by_device[1] == pytest.approx(losses_by_device[0], rel=2e-2)
    assert losses_by_device[1][-1] < losses_by_device[1][0]


def test_functions_that_say_how_they_are_cast() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="tpu", cast_inputs=torch.float32)
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            assert not torch.is_autocast_enabled("tpu")
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="tpu")
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    x = torch.ones(2, dtype=torch.bfloat16, device="tpu", requires_grad=True)
    with torch.autocast("tpu"):
        result = Double.apply(x)
    assert result.dtype == torch.float32
    result.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_skips_what_is_not_finite(fused: bool) -> None:
    results = []
    for device in ("cpu", "tpu"):
        weight = torch.ones(3, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.5, fused=fused)
        scaler = torch.amp.GradScaler(device, init_scale=4.0, growth_interval=2)
        steps = []
        for step in range(5):
            optimizer.zero_grad()
            loss = (weight * weight).sum()
            scaler.scale(loss).backward()
            assert weight.grad is not None
            if step == 1:
                weight.grad[0] = float("inf")
            if step == 3:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_([weight], 0.1)
            scaler.step(optimizer)
            scaler.update()
            steps.append((scaler.get_scale(), weight.tolist()))
        other = torch.amp.GradScaler(device)
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == scaler.get_scale()
        results.append(steps)
    assert [scale for scale, _ in results[0]] == [4.0, 2.0, 2.0, 4.0, 4.0]
    for (scale, weights), (their_scale, their_weights) in zip(results[1], results[0], strict=True):
        assert scale == their_scale
        assert weights == pytest.approx(their_weights)
