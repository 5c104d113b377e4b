# SPDX-License-Identifier: Apache-2.0
"""Tests kernels with callbacks into Python, whose programs the compile cache cannot store."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

from torch_google.tpu import custom_kernel


def doubled(values: np.ndarray) -> np.ndarray:
    return np.asarray(values) * 2


@custom_kernel("callback_test::doubled")
def twice(x: jax.Array) -> jax.Array:
    return jax.pure_callback(doubled, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@custom_kernel("callback_test::refused")
def refused(x: jax.Array) -> jax.Array:
    def refuse(values: np.ndarray) -> np.ndarray:
        raise ValueError(f"{values.size} values are refused")

    return jax.pure_callback(refuse, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
def test_a_callback_runs_beside_a_compile_cache(mode: str, tmp_path: Path) -> None:
    before = torch.tpu.get_compile_cache()
    torch.tpu.set_compile_cache(tmp_path)
    try:
        x = torch.ones(3, len(mode), device="tpu")
        with torch.tpu.eager_mode(mode):
            assert (twice(x) + 1).sum().item() == 3 * x.numel()
            torch.tpu.wait_for_compiles()
            assert (twice(x) + 1).sum().item() == 3 * x.numel()
        assert torch.compile(twice)(x).sum().item() == 2 * x.numel()
    finally:
        torch.tpu.set_compile_cache(before)


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
def test_what_a_callback_raises_is_known_at_the_next_sync(mode: str) -> None:
    x = torch.ones(5, device="tpu")

    def work() -> torch.Tensor:
        result = refused(x) + 1
        torch.tpu.synchronize()
        return result  # the array must stay alive until here

    with torch.tpu.eager_mode(mode), pytest.raises(RuntimeError, match="5 values are refused"):
        work()
    assert (x + 1).tolist() == [2.0] * 5


def test_the_callback_of_a_compiled_step_runs_in_the_callers_thread() -> None:
    seen: list[Any] = []

    def on_host(values: np.ndarray) -> np.ndarray:
        with lock:  # the caller holds it, and only its own thread may take it again
            seen.append((threading.current_thread(), torch.is_grad_enabled()))
        with pytest.raises(RuntimeError, match="was read while an operator of the same thread"):
            tensor.tolist()
        return np.asarray(values) * 2

    @custom_kernel("callback_test::doubled_by_caller")
    def kernel(x: jax.Array) -> jax.Array:
        return jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    step = torch.compile(lambda x: x.copy_(kernel(x)), backend="tpu")
    tensor = torch.ones(4096, device="tpu")
    lock = threading.RLock()
    with lock, torch.no_grad():
        step(tensor)
        step(tensor)
    assert tensor.tolist() == [4.0] * 4096
    assert seen == [(threading.current_thread(), False)] * 2
