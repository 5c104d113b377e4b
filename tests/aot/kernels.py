# SPDX-License-Identifier: Apache-2.0
"""The Pallas kernels to compile: attention, and those that `custom_kernel` registers here.

Their forward and backward programs are lowered but not run, because Pallas would interpret them on
the `cpu` platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import torch
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from torch_google.tpu import custom_kernel, lowerings
from torch_google.tpu.lowerings import attention
from torch_google.tpu.target_platform import tracing_for

DTYPES = ("float32", "bfloat16")


@custom_kernel("aot::flash", differentiable=True)
def _flash(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    attended: jax.Array = flash_attention(q, k, v, causal=True, sm_scale=1.0)
    return attended


@custom_kernel("aot::splash", differentiable=True)
def _splash(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    mask = masks.MultiHeadMask([masks.CausalMask((q.shape[2],) * 2)] * q.shape[1])
    kernel = splash.make_splash_mha(mask, head_shards=1, q_seq_shards=1)
    attended: jax.Array = jax.vmap(kernel)(q, k, v)
    return attended


@custom_kernel("aot::doubled")
def _doubled(x: jax.Array) -> jax.Array:
    def kernel(source: Any, target: Any) -> None:
        target[...] = source[...] * 2

    doubled: jax.Array = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    return doubled


def _attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Compute scaled_dot_product_attention with the device's own lowering."""
    key = jax.random.key(0)
    return attention.efficient_attention(q, k, v, None, False, is_causal=True, key=key)[0]


def _attention_vjp(
    q: jax.Array, k: jax.Array, v: jax.Array, grad: jax.Array
) -> tuple[jax.Array | None, ...]:
    key = jax.random.key(0)
    out, rows, seed, offset = attention.efficient_attention(
        q, k, v, None, True, is_causal=True, key=key
    )
    out, mask = out.astype(q.dtype), [True, True, True, False]
    return attention.efficient_attention_backward(
        grad, q, k, v, None, out, rows, seed, offset, 0.0, mask, is_causal=True
    )


# For each kernel to compile, its operator and the shape of its arguments. `attention` is torch's
# scaled_dot_product_attention; the other operators are in the `aot` namespace.
KERNELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "doubled": ("doubled", (256, 256)),
    "flash head_dim 64": ("flash", (1, 4, 512, 64)),
    "flash head_dim 128": ("flash", (1, 2, 512, 128)),
    "splash head_dim 64": ("splash", (1, 4, 512, 64)),
    "splash head_dim 128": ("splash", (1, 2, 512, 128)),
    "attention head_dim 64": ("attention", (1, 4, 512, 64)),
    "attention head_dim 128": ("attention", (1, 2, 512, 128)),
    "attention head_dim 256": ("attention", (1, 2, 512, 256)),
}


def traced(name: str, dtype: str) -> Iterator[tuple[str, jax.stages.Traced]]:
    """Trace a kernel's programs for a TPU; yield the name and the trace of each program.

    The forward program comes first. All kernels except `doubled` also have a backward program.
    """
    operator, shape = KERNELS[name]
    array = jax.ShapeDtypeStruct(shape, dtype)
    if operator == "doubled":
        yield operator, _traced(operator, array)
        return
    if operator == "attention":
        yield operator, jax.jit(_attention).trace(*[array] * 3)
        yield f"{operator}_vjp", jax.jit(_attention_vjp).trace(*[array] * 4)
        return
    qkv = [array] * 3
    yield operator, _traced(operator, *qkv)
    yield f"{operator}_vjp", _traced(f"{operator}_vjp", *qkv, qkv[:1], wanted_3=[True] * 3)


def _traced(operator: str, *args: Any, **kwargs: Any) -> jax.stages.Traced:
    lowering = lowerings.find(getattr(torch.ops.aot, operator).default)
    assert lowering is not None
    with tracing_for("tpu"):
        return jax.jit(partial(lowering.function, **kwargs)).trace(*args)
