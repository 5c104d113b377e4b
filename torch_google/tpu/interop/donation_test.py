# SPDX-License-Identifier: Apache-2.0
"""Tests that arrays held by code outside the runtime are never donated, in any execution mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from torch_google.tpu import _C, from_jax, to_jax

MODES = sorted(_C.Mode.__members__)
SIZE = 4096  # large enough that XLA reuses a donated input's buffer


def held(array: jax.Array) -> Any:
    return array


def other_array(array: jax.Array) -> Any:
    # Create a second jax.Array over the same buffer. The runtime has no reference to this array.
    return jax.device_put(array, next(iter(array.devices())))


def numpy_view(array: jax.Array) -> Any:
    return np.asarray(array)


def dlpack_view(array: jax.Array) -> Any:
    return np.from_dlpack(array)


HOLDERS: list[Callable[[jax.Array], Any]] = [held, other_array, numpy_view, dlpack_view]


def overwrite(x: torch.Tensor) -> None:
    """Overwrite a tensor repeatedly, as training does, so that old buffers may be donated."""
    for _ in range(5):
        x.mul_(2).add_(1)
        x.sub_(0.5)
    x.sum().item()
    torch.tpu.wait_for_compiles()


# How many times each test repeats. The first runs donate nothing, because the trace is new or its
# program is still being compiled.
TIMES = 4


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_an_array_that_left_keeps_its_values(mode: Any, holder: Any) -> None:
    with torch.tpu.eager_mode(mode):
        for _ in range(TIMES):
            x = torch.ones(SIZE, device="tpu") + 1
            wrapped = holder(to_jax(x))
            overwrite(x)
            assert np.asarray(wrapped).tolist() == [2.0] * SIZE


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_an_array_that_came_keeps_its_values(mode: Any, holder: Any) -> None:
    with torch.tpu.eager_mode(mode):
        for _ in range(TIMES):
            array = jnp.full(SIZE, 3.0)
            wrapped = holder(array)
            x = from_jax(array)
            del array
            overwrite(x)
            assert np.asarray(wrapped).tolist() == [3.0] * SIZE


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_compiled_function_donates_none_of_them(holder: Any) -> None:
    torch._dynamo.reset()

    @torch.compile
    def double(x: torch.Tensor) -> None:
        x.mul_(2)

    for _ in range(TIMES):
        x, array = torch.ones(SIZE, device="tpu") + 1, jnp.full(SIZE, 3.0)
        wrapped, other = holder(to_jax(x)), holder(array)
        y = from_jax(array)
        del array
        double(x)
        double(y)
        assert (x[0].item(), y[0].item()) == (4.0, 6.0)
        assert np.asarray(wrapped).tolist() == [2.0] * SIZE
        assert np.asarray(other).tolist() == [3.0] * SIZE


@pytest.mark.parametrize("mode", MODES)
def test_an_exported_tensor_keeps_its_values(mode: Any) -> None:
    with torch.tpu.eager_mode(mode):
        for _ in range(TIMES):
            x = torch.ones(SIZE, device="tpu") + 1
            view, host = np.from_dlpack(x), x.cpu()
            overwrite(x)
            assert view.tolist() == [2.0] * SIZE
            assert host.tolist() == [2.0] * SIZE


def test_what_a_user_donates_is_named() -> None:
    x = torch.ones(SIZE, device="tpu") + 1
    jax.jit(lambda array: array * 2, donate_argnums=0)(to_jax(x))
    with pytest.raises(RuntimeError, match="deleted"):
        x.cpu()
