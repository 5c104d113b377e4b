# SPDX-License-Identifier: Apache-2.0
"""Attention for TPUs with JAX's Pallas kernels, which never store the full score matrix.

The kernels process queries and keys in blocks of a fixed size, so they support only some shapes
and dtypes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

# Block sizes of the kernels. For each sequence length, a kernel uses the largest size that divides
# it. Lengths must be multiples of the smallest size, which is the number of lanes in a TPU's vector
# registers.
_BLOCKS = (512, 256, 128)
_LANES, _SUBLANES = 128, 8
# The maximum head_dim. Each block spans the whole head_dim, and must fit in VMEM.
_LARGEST_HEAD = 256
_FEW_KEYS = 256
# The precision "high" is not supported, because Mosaic has no three-pass (bf16_3x) matmul.
_PRECISIONS = (None, "default", "highest")


def applies(
    q: jax.Array, k: jax.Array, v: jax.Array, bias: Any, scale: Any, dropout_is_zero: bool
) -> bool:
    """Return whether to use the kernels for these arguments.

    They support bfloat16 and float32 in four dimensions, without a mask or dropout. Sequence
    lengths must be multiples of 128. head_dim must be 256, or a multiple of 8 up to 128. For up to
    256 keys, plain attention is used instead, because it moves fewer bytes: the kernels store each
    row's log-sum-exp in the space of 128 scores.
    """
    head = q.shape[-1]
    return (
        bias is None
        and dropout_is_zero
        and (scale is None or type(scale) in (int, float))
        and q.ndim == k.ndim == v.ndim == 4
        and q.dtype == k.dtype == v.dtype
        and q.dtype in (jnp.bfloat16, jnp.float32)
        and q.shape[0] == k.shape[0] == v.shape[0]
        and k.shape[1:3] == v.shape[1:3]
        and q.shape[1] % k.shape[1] == 0
        and head == k.shape[-1] == v.shape[-1]
        and head % (_LANES if head > _LANES else _SUBLANES) == 0
        and 0 < head <= _LARGEST_HEAD
        and all(size > 0 and size % _LANES == 0 for size in (q.shape[-2], k.shape[-2]))
        and k.shape[-2] > _FEW_KEYS
        and jax.config.jax_default_matmul_precision in _PRECISIONS
    )


def forward(
    causal: bool, scale: Any, log_sums: bool
) -> Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """Return a function that maps q, k and v to the output and the log-sum-exp of each row.

    If `log_sums` is False, the log-sum-exps are zeros, which avoids storing them.
    """

    @at_current_precision
    def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        # Pallas takes a second to import, so import it only if a program uses it.
        from jax.experimental.pallas.ops.tpu import flash_attention as pallas

        blocks = _blocks(pallas, q, k)
        heads = for_heads(k, q), for_heads(v, q)
        results = pallas._flash_attention(
            q, *heads, None, None, log_sums, causal, _scale(q, scale), blocks, False
        )
        if not log_sums:
            return results, jnp.zeros(q.shape[:-1], jnp.float32)
        out, sums, tops = results
        return out, jnp.log(sums) + tops

    return attend


def backward(causal: bool, scale: Any) -> Callable[..., tuple[jax.Array, jax.Array, jax.Array]]:
    """Return a function that computes the gradients of q, k and v, in their dtypes.

    Its arguments are the output's gradient, q, k, v, the output and the log-sum-exps.
    """

    @at_current_precision
    def differentiate(
        grad: jax.Array,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        out: jax.Array,
        log_sums: jax.Array,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        from jax.experimental.pallas.ops.tpu import flash_attention as pallas

        blocks = _blocks(pallas, q, k)
        # The kernels compute exp(score - top) / sum, where `top` is a row's largest score. Pass the
        # log-sum-exp as `top`, and 1 as `sum`.
        tops, sums = log_sums, jnp.ones_like(log_sums)
        shares = (out.astype(jnp.float32) * grad.astype(jnp.float32)).sum(-1)
        arrays = (q, for_heads(k, q), for_heads(v, q), None, None, sums, tops, grad, shares)
        options = {
            "sm_scale": _scale(q, scale),
            "causal": causal,
            "mask_value": pallas.DEFAULT_MASK_VALUE,
            "debug": False,
        }
        to_k, to_v = pallas._flash_attention_bwd_dkv(
            *arrays,
            block_q_major=blocks.block_q_major_dkv,
            block_k_major=blocks.block_k_major_dkv,
            block_k=blocks.block_k_dkv,
            block_q=blocks.block_q_dkv,
            **options,
        )
        to_q, _ = pallas._flash_attention_bwd_dq(
            *arrays,
            block_q_major=blocks.block_q_dq,
            block_k_major=blocks.block_k_major_dq,
            block_k=blocks.block_k_dq,
            **options,
        )
        return to_q, of_groups(to_k, k), of_groups(to_v, v)

    return differentiate


def at_current_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it is traced with the current matmul precision.

    The TPU version is traced only when the program is lowered or partitioned, and the setting may
    have changed by then.
    """
    precision = jax.config.jax_default_matmul_precision

    @functools.wraps(function)
    def traced(*arrays: jax.Array, **options: Any) -> Any:
        with jax.default_matmul_precision(precision):
            return function(*arrays, **options)

    return traced


def _blocks(pallas: Any, q: jax.Array, k: jax.Array) -> Any:
    rows, keys = _block(q.shape[-2]), _block(k.shape[-2])
    return pallas.BlockSizes(
        block_b=1,
        block_q=rows,
        block_k_major=keys,
        block_k=keys,
        block_q_major_dkv=rows,
        block_q_dkv=rows,
        block_k_major_dkv=keys,
        block_k_dkv=keys,
        block_q_dq=rows,
        block_k_major_dq=keys,
        block_k_dq=keys,
    )


def _block(length: int) -> int:
    return next(size for size in _BLOCKS if length % size == 0)


def _scale(q: jax.Array, scale: Any) -> float:
    return 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)


def for_heads(x: jax.Array, q: jax.Array) -> jax.Array:
    """Repeat the keys or values for each head of `q`, because the heads in a group share them."""
    groups = q.shape[1] // x.shape[1]
    return x if groups == 1 else jnp.repeat(x, groups, axis=1)


def of_groups(grad: jax.Array, x: jax.Array) -> jax.Array:
    """Sum the gradients of keys or values over the heads that share them."""
    groups = grad.shape[1] // x.shape[1]
    if groups == 1:
        return grad
    batch, heads, *rest = x.shape
    summed = grad.astype(jnp.float32).reshape(batch, heads, groups, *rest).sum(2)
    return summed.astype(x.dtype)
