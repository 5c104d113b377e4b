# SPDX-License-Identifier: Apache-2.0
"""Test that fenced programs compute the same values, and do not copy a donated array."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from torch_google.tpu import program

_SIZE = 1 << 16


def _halve(x: jax.Array) -> tuple[jax.Array]:
    half = jax.lax.slice(x, (64,), (128,)) / 2
    return (jax.lax.dynamic_update_slice(x, half, (64,)),)


def _scatter(x: jax.Array) -> tuple[jax.Array]:
    return (x.at[jnp.array([5, 900])].set(x[:2] + 1, mode="clip"),)


def _add(x: jax.Array) -> tuple[jax.Array]:
    return (x.at[jnp.array([5, 900])].add(x[10:12], mode="clip"),)


@pytest.mark.parametrize("function", [_halve, _scatter, _add])
def test_values_stay_and_nothing_is_copied(function: Callable[..., tuple[jax.Array]]) -> None:
    x = jnp.arange(float(_SIZE))
    (expected,) = jax.jit(function)(x)
    fenced = program.fenced(jax.make_jaxpr(function)(x))
    compiled = jax.jit(fenced, donate_argnums=0).lower(x).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < x.nbytes
    address = x.unsafe_buffer_pointer()
    (result,) = compiled(x)
    assert np.array_equal(result, expected)
    assert result.unsafe_buffer_pointer() == address
