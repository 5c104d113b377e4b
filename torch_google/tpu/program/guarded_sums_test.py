# SPDX-License-Identifier: Apache-2.0
"""Windowed sums of constants, which abort XLA without the guard, give correct results."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from torch_google.tpu.program import compile_safely
from torch_google.tpu.program.guarded_sums import guard_sums


def _gathered() -> jax.Array:
    """Return zeros that XLA folds into a broadcast of a reshaped constant."""
    return jnp.zeros((1,), jnp.int32)[jnp.array([0, -1])].astype(jnp.float32)


def _sum(x: jax.Array, padding: list[tuple[int, int]] | str) -> jax.Array:
    return lax.reduce_window(x, np.float32(0), lax.add, x.shape, (1,), padding)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: jnp.cumsum(_gathered()), [0, 0]),
        (lambda: jnp.cumsum(_gathered() + 1), [1, 2]),
        (lambda: lax.cumsum(_gathered(), reverse=True), [0, 0]),
        (lambda: _sum(_gathered(), [(1, 0)]), [0, 0]),
        (lambda: _sum(_gathered(), "VALID"), [0]),
        (
            lambda: jnp.repeat(jnp.arange(2), 1 + _gathered().astype(int), total_repeat_length=2),
            [0, 1],
        ),
    ],
    ids=["cumsum", "ones", "reverse", "window", "valid", "repeat"],
)
def test_a_sum_over_a_folded_gather(function: Callable[[], jax.Array], expected: list[int]) -> None:
    np.testing.assert_array_equal(compile_safely(jax.jit(function).lower())(), expected)


def test_only_sums_get_a_barrier_and_only_one() -> None:
    x = jnp.arange(4.0)
    for function, barriers in [(jnp.cumsum, 1), (jnp.cumprod, 0), (lax.cummax, 0), (jnp.sin, 0)]:
        lowered = jax.jit(function).lower(x)
        guard_sums(lowered)
        guard_sums(lowered)
        assert lowered.as_text().count("optimization_barrier") == barriers, function


def test_the_guard_is_still_needed() -> None:
    """If this test fails, XLA no longer aborts, so delete `guarded_sums`."""
    program = """
        import jax, jax.numpy as jnp
        jax.jit(lambda: jnp.cumsum(jnp.zeros(1, jnp.int32)[jnp.array([0, -1])].astype(float)))()
    """
    child = [sys.executable, "-c", textwrap.dedent(program)]
    process = subprocess.run(child, capture_output=True, text=True, check=False)
    assert process.returncode < 0, process.stderr
    assert "Check failed" in process.stderr
