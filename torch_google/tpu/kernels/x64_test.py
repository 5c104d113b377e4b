# SPDX-License-Identifier: Apache-2.0
"""Tests that kernels without 64-bit support are traced in 32-bit mode, but keep 64-bit dtypes."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from torch_google.tpu import custom_kernel, lowerings
from torch_google.tpu.target_platform import tracing_for

BIG = 2**40 + 1


@custom_kernel("x64_test::flash", differentiable=True)
def flash(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return flash_attention(q, k, v, causal=True, sm_scale=1.0)


@custom_kernel("x64_test::splashed", differentiable=True)
def splashed(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    mask = masks.MultiHeadMask([masks.CausalMask((q.shape[2],) * 2)] * q.shape[1])
    kernel = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1)
    return jax.vmap(kernel)(q, k, v)


def doubling(source: Any, target: Any) -> None:
    target[...] = source[...] * 2


def twice(x: jax.Array) -> jax.Array:
    return pl.pallas_call(doubling, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@custom_kernel("x64_test::doubled")
def doubled(x: jax.Array) -> jax.Array:
    return twice(x)


@custom_kernel("x64_test::counted")
def counted(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return twice(x), jnp.sum(x > 0) + BIG


@custom_kernel("x64_test::summed")
def summed(x: jax.Array) -> jax.Array:
    big = jnp.full(x.shape, 2**20, jnp.int64)
    return (big * big + twice(x).astype(jnp.int64)).sum().astype(jnp.float32)


@custom_kernel("x64_test::moved")
def moved(x: jax.Array) -> jax.Array:
    # BIG does not fit in an int32.
    return (twice(x).astype(jnp.int64) + BIG).sum().astype(jnp.float32)


@custom_kernel("x64_test::precise", differentiable=True)
def precise(x: jax.Array) -> jax.Array:
    assert jax.config.jax_enable_x64
    return ((x + np.float64(1e-12)) - 1).astype(x.dtype)


@custom_kernel("x64_test::mixed", differentiable=True)
def mixed(x: jax.Array) -> jax.Array:
    return x * jax.lax.select(x[0] > 0, jnp.argmax(x), jnp.int32(2))


@custom_kernel("x64_test::narrow", x64=False, differentiable=True)
def narrow(x: jax.Array) -> jax.Array:
    assert not jax.config.jax_enable_x64
    return x * jnp.arange(x.shape[0]).astype(x.dtype)


@custom_kernel("x64_test::wide", x64=True)
def wide(x: jax.Array) -> jax.Array:
    assert jax.config.jax_enable_x64
    return twice(x)


def lowered(name: str, *args: Any, **kwargs: Any) -> str:
    """Return the StableHLO of a kernel, lowered for a TPU."""
    lowering = lowerings.find(getattr(torch.ops.x64_test, name).default)
    assert lowering is not None
    function = partial(lowering.function, **kwargs)
    with tracing_for("tpu"):
        traced = jax.jit(function).trace(*args)
        return str(traced.lower(lowering_platforms=("tpu",)).as_text())


@pytest.mark.parametrize("name", ["flash", "splashed"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_of_jax_lowers_for_a_tpu(name: str, dtype: str) -> None:
    qkv = [jax.ShapeDtypeStruct((1, 2, 128, 128), dtype)] * 3
    assert "tpu_custom_call" in lowered(name, *qkv)
    gradient = lowered(f"{name}_vjp", *qkv, qkv[:1], wanted_3=[True] * 3)
    # The forward pass and two backward kernels make at least one call each.
    assert gradient.count("custom_call @tpu_custom_call") >= 3


@pytest.mark.parametrize("kernel", [flash, splashed])
def test_attention_of_jax_is_interpreted_on_a_cpu(kernel: Any) -> None:
    torch.manual_seed(1)
    host = [torch.randn(1, 1, 128, 128).mul(0.2).requires_grad_() for _ in range(3)]
    expected = torch.nn.functional.scaled_dot_product_attention(*host, is_causal=True, scale=1.0)
    device = [tensor.detach().to("tpu").requires_grad_() for tensor in host]
    actual = kernel(*device)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(actual.square().sum(), device)
    torch.testing.assert_close(
        [gradient.cpu() for gradient in gradients],
        list(torch.autograd.grad(expected.square().sum(), host)),
        rtol=1e-3,
        atol=1e-3,
    )


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_values_of_64_bits_are_not_truncated(device: str) -> None:
    x = torch.tensor([1, -1, BIG], device=device)
    assert doubled(x).tolist() == [2, -2, 2 * BIG]
    assert torch.vmap(doubled)(x).tolist() == [2, -2, 2 * BIG]
    result, count = counted(x.float())
    assert (result.dtype, count.dtype, count.item()) == (torch.float32, torch.int64, BIG + 2)
    assert summed(x[:2].float()).item() == 2.0**41
    assert moved(x[:2].float()).item() == 2.0**41


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_function_without_pallas_keeps_64_bits(device: str) -> None:
    x = torch.ones(2, device=device, requires_grad=True)
    result = precise(x)
    assert result.tolist() == pytest.approx([1e-12] * 2, rel=1e-3)
    assert torch.autograd.grad(result.sum(), x)[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_function_that_cannot_be_traced_with_64_bits(device: str) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    assert mixed(x).tolist() == [2.0, 4.0, 6.0]
    assert torch.autograd.grad(mixed(x).sum(), x)[0].tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(TypeError, match="same dtypes, got int.*, int"):
        mixed(x.detach().double())


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_the_choice_of_the_user(device: str) -> None:
    x = torch.ones(3, device=device, requires_grad=True)
    assert wide(x).tolist() == [2.0] * 3
    assert narrow(x).tolist() == [0.0, 1.0, 2.0]
    assert torch.autograd.grad(narrow(x).sum(), x)[0].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(
        TypeError, match="x64_test::narrow .*it has x64=False, but a tensor is float64"
    ):
        narrow(x.double())


def test_the_error_with_64_bits_is_raised_if_there_is_one_without() -> None:
    @custom_kernel("x64_test::refusing")
    def refusing(x: jax.Array) -> jax.Array:
        raise ValueError(f"refused, x64={jax.config.jax_enable_x64}")

    for device in ("cpu", "tpu"):
        with pytest.raises(ValueError, match="refused, x64=True"):
            refusing(torch.ones(2, device=device))
