# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from torch_google.tpu.kernels.pallas import interpreted
from torch_google.tpu.lowerings import attention, flash_attention, platform_choice

Shape = tuple[int, int, int, int]


def inputs(q: Shape, k: Shape, dtype: Any = jnp.float32) -> list[jax.Array]:
    """Return random queries, keys, values and a gradient of the output."""
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = (q, k, k, q)
    return [jax.random.normal(*pair, dtype) for pair in zip(keys, shapes, strict=True)]


def with_gradients(causal: bool, scale: float | None) -> Any:
    """Return a function that computes the operator's output, log-sum-exp and gradients."""

    def function(q: jax.Array, k: jax.Array, v: jax.Array, grad: jax.Array) -> Any:
        key = jax.random.key(0)
        out, rows, seed, offset = attention.efficient_attention(
            q, k, v, None, True, 0.0, causal, scale=scale, key=key
        )
        state = (out.astype(q.dtype), rows, seed, offset, 0.0, [True] * 3 + [False])
        backward = attention.efficient_attention_backward(
            grad, q, k, v, None, *state, causal, scale=scale
        )
        return out, rows, *backward[:3]

    return function


def on_tpu(*arrays: jax.Array, tpu: Any, default: Any, **_: Any) -> Any:
    """Stand in for `choose`: run the TPU version, with its Pallas kernels interpreted."""
    with jax.enable_x64(False), interpreted("cpu"):
        return tpu(*arrays)


def close(actual: Any, expected: Any, tolerance: float) -> None:
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        np.testing.assert_allclose(
            np.asarray(one, np.float32), np.asarray(other, np.float32), tolerance, tolerance
        )


@pytest.mark.parametrize(
    ("q", "k", "causal", "scale", "dtype", "tolerance"),
    [
        # The cases: several blocks with grouped queries, fewer queries than keys, and bfloat16.
        ((1, 2, 384, 24), (1, 1, 384, 24), True, None, jnp.float32, 2e-5),
        ((1, 1, 128, 128), (1, 1, 384, 128), False, 0.2, jnp.float32, 2e-5),
        ((1, 1, 128, 64), (1, 1, 512, 64), True, None, jnp.bfloat16, 4e-2),
    ],
)
def test_the_kernels_compute_what_the_formula_computes(
    q: Shape, k: Shape, causal: bool, scale: Any, dtype: Any, tolerance: float
) -> None:
    arrays = inputs(q, k, dtype)
    function = with_gradients(causal, scale)
    with mock.patch.object(attention, "choose", side_effect=on_tpu) as chosen:
        actual = function(*arrays)
    assert chosen.call_count == 2
    close(actual, function(*arrays), tolerance)


def test_without_a_log_sum_exp_the_output_is_the_same() -> None:
    q, k, v, _ = inputs((1, 1, 128, 32), (1, 1, 128, 32))
    with jax.enable_x64(False), interpreted("cpu"):
        alone = flash_attention.forward(True, None, False)(q, k, v)
        both = flash_attention.forward(True, None, True)(q, k, v)
    close(alone[:1], both[:1], 1e-6)
    assert not alone[1].any()


def kernels(function: Any, *arrays: Any, platform: str = "tpu") -> int:
    """Return the number of Pallas kernels in a function's program for a platform."""
    traced = jax.jit(function).trace(*arrays)
    return int(traced.lower(lowering_platforms=(platform,)).as_text().count("@tpu_custom_call"))


def test_only_programs_for_a_tpu_have_kernels() -> None:
    arrays = inputs((1, 2, 512, 64), (1, 2, 512, 64))
    assert kernels(with_gradients(True, None), *arrays) == 3
    assert kernels(with_gradients(True, None), *arrays, platform="cpu") == 0
    assert kernels(with_gradients(True, None), *arrays, platform="cuda") == 0


@pytest.mark.parametrize(
    "change",
    [
        {"q": (1, 2, 200, 64)},
        {"k": (1, 2, 8, 64)},
        {"k": (1, 2, 256, 64)},
        {"q": (1, 2, 512, 192), "k": (1, 2, 512, 192)},
        {"q": (1, 2, 512, 60), "k": (1, 2, 512, 60)},
        {"dtype": jnp.float16},
        {"dtype": jnp.float64},
        {"bias": jnp.ones((512, 512))},
        {"dropout_is_zero": False},
        {"scale": jnp.ones(())},
    ],
)
def test_other_arguments_have_the_formula(change: dict[str, Any]) -> None:
    shape = (1, 2, 512, 64)
    options: dict[str, Any] = {"q": shape, "k": shape, "dtype": jnp.float32} | change

    def applies(q: Shape, k: Shape, dtype: Any, **rest: Any) -> bool:
        arrays = [jax.ShapeDtypeStruct(each, dtype) for each in (q, k, k)]
        arguments = {"bias": None, "scale": None, "dropout_is_zero": True} | rest
        return flash_attention.applies(*arrays, **arguments)

    assert not applies(**options)
    assert applies(shape, shape, jnp.float32)


def test_the_precision_of_products_is_that_of_the_trace() -> None:
    q, k, v, _ = inputs((1, 1, 512, 64), (1, 1, 512, 64))

    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        return attention.flash_attention(q, k, v)[0]

    def trace_at(precision: str) -> jax.stages.Traced:
        with jax.default_matmul_precision(precision):
            return jax.jit(attend).trace(q, k, v)

    def traced_kernels(traced: jax.stages.Traced) -> list[str]:
        (eqn,) = [e for e in traced.jaxpr.eqns if e.primitive is platform_choice._choice_p]
        with jax.enable_x64(False):
            return [str(jax.make_jaxpr(eqn.params["tpu"])(q, k, v))]

    assert "HIGHEST" in traced_kernels(trace_at("highest"))[0]
    assert "HIGHEST" not in traced_kernels(trace_at("default"))[0]
    assert not any(e.primitive is platform_choice._choice_p for e in trace_at("high").jaxpr.eqns)
