# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention: torch's fused operators and their gradients.

On a TPU, XLA would store all scores in HBM, so Pallas kernels compute attention if they support the
call. A gradient recomputes the weights from the log-sum-exp. An operator with dropout returns the
seed of the dropout mask, so that the gradient uses the same mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings import flash_attention as flash
from torch_google.tpu.lowerings import sharded_attention as sharded
from torch_google.tpu.lowerings.opmath import is_zero, opmath
from torch_google.tpu.lowerings.platform_choice import choose
from torch_google.tpu.lowerings.table import lowering

_Bias: TypeAlias = jax.Array | None
_SEED = 2**31 - 1


@lowering("aten::_scaled_dot_product_fused_attention_overrideable", random=True)
def fused_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    attn_bias: _Bias = None,
    dropout_p: Any = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Any = None,
    key: jax.Array,
) -> tuple[Any, ...]:
    seed = jax.random.randint(key, (), 0, _SEED, jnp.int64)
    out, lse = _attend(q, k, v, attn_bias, is_causal, scale, dropout_p, seed)
    lse = lse if lse.ndim == 3 else lse[None]
    offset = jnp.zeros((), jnp.int64)
    return out, lse, None, None, q.shape[-2], k.shape[-2], seed, offset, None


@lowering("aten::_scaled_dot_product_fused_attention_overrideable_backward")
def fused_attention_backward(
    grad: jax.Array,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    attn_bias: _Bias,
    grad_input_mask: Sequence[bool],
    out: jax.Array,
    logsumexp: jax.Array,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: Any,
    is_causal: bool,
    philox_seed: jax.Array,
    philox_offset: jax.Array,
    *,
    scale: Any = None,
) -> tuple[jax.Array | None, ...]:
    results = (out, logsumexp)
    return _backward(grad, q, k, v, attn_bias, *results, is_causal, scale, dropout_p, philox_seed)


@lowering("aten::_scaled_dot_product_efficient_attention", random=True)
def efficient_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    attn_bias: _Bias,
    compute_log_sumexp: bool,
    dropout_p: Any = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    key: jax.Array,
) -> tuple[jax.Array, ...]:
    seed = jax.random.randint(key, (), 0, _SEED, jnp.int64)
    out, lse = _attend(
        q, k, v, attn_bias, is_causal, scale, dropout_p, seed, log_sums=compute_log_sumexp
    )
    # torch pads the row dimension to a multiple of 32.
    room = -lse.shape[-1] % 32
    lse = jnp.pad(lse, [(0, 0)] * (lse.ndim - 1) + [(0, room)], constant_values=jnp.inf)
    return out, (lse if compute_log_sumexp else lse[..., :0]), seed, jnp.zeros((), jnp.int64)


@lowering("aten::_scaled_dot_product_efficient_attention_backward")
def efficient_attention_backward(
    grad: jax.Array,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    attn_bias: _Bias,
    out: jax.Array,
    logsumexp: jax.Array,
    philox_seed: jax.Array,
    philox_offset: jax.Array,
    dropout_p: Any,
    grad_input_mask: Sequence[bool],
    is_causal: bool = False,
    *,
    scale: Any = None,
) -> tuple[jax.Array | None, ...]:
    results = (out, logsumexp)
    grads = _backward(grad, q, k, v, attn_bias, *results, is_causal, scale, dropout_p, philox_seed)
    return tuple(
        g if requested else None for g, requested in zip(grads, grad_input_mask, strict=True)
    )


@lowering("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    dropout_p: Any = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: _Bias = None,
    scale: Any = None,
) -> tuple[jax.Array, jax.Array]:
    """Compute attention without dropout. Like torch's operator, it returns no seed."""
    return _attend(q, k, v, attn_mask, is_causal, scale, 0.0, None)


@lowering("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    grad: jax.Array,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    out: jax.Array,
    logsumexp: jax.Array,
    dropout_p: Any,
    is_causal: bool,
    *,
    attn_mask: _Bias = None,
    scale: Any = None,
) -> tuple[jax.Array | None, ...]:
    results = (out, logsumexp)
    return _backward(grad, q, k, v, attn_mask, *results, is_causal, scale, 0.0, None)[:3]


def _attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    bias: _Bias,
    is_causal: bool,
    scale: Any,
    dropout_p: Any,
    seed: jax.Array | None,
    *,
    log_sums: bool = True,
) -> tuple[jax.Array, jax.Array]:
    """Return the attention output, and the log-sum-exp of each row's scores.

    If `log_sums` is False, the log-sum-exp may have any value.
    """

    def plain(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _attend_to_scores(q, k, v, bias, is_causal, scale, dropout_p, seed)

    if not flash.applies(q, k, v, bias, scale, seed is None or is_zero(dropout_p)):
        return plain(q, k, v)
    values: tuple[jax.Array, jax.Array] = choose(
        q,
        k,
        v,
        tpu=_as_float32(flash.forward(is_causal, scale, log_sums)),
        default=plain,
        x64=False,
        one_device=True,
        on_mesh=_attend_on_mesh(is_causal, scale, log_sums),
    )
    return values


def _attend_on_mesh(is_causal: bool, scale: Any, log_sums: bool) -> Callable[..., Any]:
    """Return the forward function for programs that XLA partitions, without bias or dropout."""

    @flash.at_current_precision
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, *, first_row: Any) -> Sequence[jax.Array]:
        bias, causal = _causality(is_causal, first_row, q, k)
        return _attend(q, k, v, bias, causal, scale, 0.0, None, log_sums=log_sums)

    name = f"{_name(is_causal, scale)} log_sums={log_sums}"

    def on_mesh(q: jax.Array, k: jax.Array, v: jax.Array) -> Any:
        heads = flash.for_heads(k, q), flash.for_heads(v, q)
        return sharded.forward(q, *heads, name=name, attend=attend)

    return on_mesh


def _differentiate_on_mesh(is_causal: bool, scale: Any) -> Callable[..., Any]:
    """Return the backward function for programs that XLA partitions, without bias or dropout."""

    @flash.at_current_precision
    def differentiate(
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        grad: jax.Array,
        out: jax.Array,
        log_sums: jax.Array,
        *,
        first_row: Any,
    ) -> Sequence[jax.Array]:
        bias, causal = _causality(is_causal, first_row, q, k)
        gradients = _backward(grad, q, k, v, bias, out, log_sums, causal, scale, 0.0, None)
        return [x for x in gradients[:3] if x is not None]

    name = _name(is_causal, scale)

    def on_mesh(
        grad: jax.Array, q: jax.Array, k: jax.Array, v: jax.Array, *results: jax.Array
    ) -> Any:
        arrays = q, flash.for_heads(k, q), flash.for_heads(v, q), grad, *results
        to_q, to_k, to_v = sharded.backward(*arrays, name=name, differentiate=differentiate)
        return to_q, flash.of_groups(to_k, k), flash.of_groups(to_v, v)

    return _as_float32(on_mesh)


def _name(is_causal: bool, scale: Any) -> str:
    precision = jax.config.jax_default_matmul_precision
    return f"causal={is_causal} scale={scale} precision={precision}"


def _causality(is_causal: bool, first_row: Any, q: jax.Array, k: jax.Array) -> tuple[_Bias, bool]:
    """Return the bias and `is_causal` for a device whose first row is at this position."""
    if not is_causal or first_row is None:
        return None, is_causal
    rows, keys = first_row + jnp.arange(q.shape[-2]), jnp.arange(k.shape[-2])
    return rows[:, None] >= keys, False


def _as_float32(function: Callable[..., Sequence[jax.Array]]) -> Callable[..., tuple[Any, ...]]:
    """Make a Pallas kernel return float32, like the plain implementation."""
    return lambda *arrays: tuple(x.astype(jnp.float32) for x in function(*arrays))


def _attend_to_scores(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    bias: _Bias,
    is_causal: bool,
    scale: Any,
    dropout_p: Any,
    seed: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    scores = _scores(q, k, bias, is_causal, scale)
    top = scores.max(-1, keepdims=True, initial=-jnp.inf)
    top = jnp.where(top == -jnp.inf, 0, top)
    exps = jnp.exp(scores - top)
    total = exps.sum(-1, keepdims=True)
    # If all keys are masked for a query, its weights are zeros.
    weights = _drop(exps / jnp.where(total == 0, 1, total), dropout_p, seed)
    out = jnp.einsum(
        "...qk,...kd->...qd",
        weights.astype(q.dtype),
        _for_heads(v, q),
        preferred_element_type=scores.dtype,
    )
    return out, (jnp.log(total) + top)[..., 0]


def _backward(
    grad: jax.Array,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    bias: _Bias,
    out: jax.Array,
    logsumexp: jax.Array,
    is_causal: bool,
    scale: Any,
    dropout_p: Any,
    seed: jax.Array | None,
) -> tuple[jax.Array | None, ...]:
    """Return gradients for q, k, v and the bias. The last is None if the bias is a mask or None.

    `out` and `logsumexp` may be the results for more keys than `k` contains: context parallelism
    passes a subset of the keys at a time, together with the results for all keys.
    """

    def plain(
        grad: jax.Array,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        out: jax.Array,
        logsumexp: jax.Array,
    ) -> tuple[jax.Array | None, ...]:
        results = (out, logsumexp)
        return _backward_of_scores(grad, q, k, v, bias, *results, is_causal, scale, dropout_p, seed)

    dropout_is_zero = seed is None or is_zero(dropout_p)
    rows = q.shape[:-1]
    if (
        not flash.applies(q, k, v, bias, scale, dropout_is_zero)
        or logsumexp.dtype != jnp.float32
        or logsumexp.size < math.prod(rows)
    ):
        return plain(grad, q, k, v, out, logsumexp)
    # logsumexp may have padded rows, and some of torch's operators merge its leading dimensions.
    row_sums = logsumexp.reshape(*rows[:-1], -1)[..., : rows[-1]]
    gradients: tuple[jax.Array, ...] = choose(
        grad.astype(q.dtype),
        q,
        k,
        v,
        out.astype(q.dtype),
        row_sums,
        tpu=_as_float32(flash.backward(is_causal, scale)),
        default=lambda *arrays: plain(*arrays)[:3],
        x64=False,
        one_device=True,
        on_mesh=_differentiate_on_mesh(is_causal, scale),
    )
    return *gradients, None


def _backward_of_scores(
    grad: jax.Array,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    bias: _Bias,
    out: jax.Array,
    logsumexp: jax.Array,
    is_causal: bool,
    scale: Any,
    dropout_p: Any,
    seed: jax.Array | None,
) -> tuple[jax.Array | None, ...]:
    learned = bias is not None and bias.dtype != jnp.bool_
    grad, q, k, v, out = (opmath(x) for x in (grad, q, k, v, out))

    def scores_of(q: jax.Array, k: jax.Array, learned_bias: _Bias) -> jax.Array:
        return _scores(q, k, learned_bias if learned else bias, is_causal, scale)

    scores, back = jax.vjp(scores_of, q, k, opmath(bias) if learned and bias is not None else None)
    rows = logsumexp.reshape(*scores.shape[:-2], -1)[..., : scores.shape[-2]]
    if rows.dtype != scores.dtype:
        rows = _widened(rows, jax.nn.logsumexp(scores, axis=-1))
    weights = jnp.where(scores == -jnp.inf, 0, jnp.exp(scores - rows[..., None]))
    values, back_values = jax.vjp(lambda v: _for_heads(v, q), v)
    dropped = _drop(weights, dropout_p, seed)
    to_values = back_values(jnp.einsum("...qk,...qd->...kd", dropped, grad))[0]
    slopes = _drop(jnp.einsum("...qd,...kd->...qk", grad, values), dropout_p, seed)
    to_scores = weights * (slopes - (grad * out).sum(-1, keepdims=True))
    to_q, to_k, to_bias = back(to_scores.astype(scores.dtype))
    return to_q, to_k, to_values, to_bias


def _widened(rows: jax.Array, precise: jax.Array) -> jax.Array:
    """Return `precise` where `rows` is close to it, elsewhere `rows` cast to precise's dtype."""
    tolerance = 4 * jnp.finfo(jnp.float32).eps * jnp.maximum(jnp.abs(precise), 1)
    return jnp.where(jnp.abs(rows - precise) <= tolerance, precise, rows.astype(precise.dtype))


def _scores(q: jax.Array, k: jax.Array, bias: _Bias, is_causal: bool, scale: Any) -> jax.Array:
    """Return the scaled scores, with -inf for masked keys."""
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0
    wide = jnp.float32 if q.dtype in (jnp.float16, jnp.bfloat16) else q.dtype
    scores = jnp.einsum("...qd,...kd->...qk", q, _for_heads(k, q), preferred_element_type=wide)
    scores = scores * jnp.asarray(scale).astype(wide)
    if bias is not None and bias.dtype == jnp.bool_:
        scores = jnp.where(bias, scores, -jnp.inf)
    elif bias is not None:
        scores = scores + opmath(bias)
    if is_causal:
        rows, columns = jnp.arange(q.shape[-2]), jnp.arange(k.shape[-2])
        scores = jnp.where(rows[:, None] >= columns, scores, -jnp.inf)
    return scores


def _for_heads(x: jax.Array, q: jax.Array) -> jax.Array:
    """Repeat the keys or values for each head of `q`, because the heads in a group share them."""
    return x if x.shape[-3] == q.shape[-3] else jnp.repeat(x, q.shape[-3] // x.shape[-3], axis=-3)


def _drop(weights: jax.Array, dropout_p: Any, seed: jax.Array | None) -> jax.Array:
    """Apply dropout to attention weights or to their gradients. `seed` determines the mask."""
    if seed is None or is_zero(dropout_p):
        return weights
    keep_probability = 1 - jnp.asarray(dropout_p, jnp.float32)
    draws = jax.random.uniform(jax.random.key(seed.astype(jnp.uint32)), weights.shape)
    kept = weights / jnp.maximum(keep_probability, 1e-30).astype(weights.dtype)
    return jnp.where(draws < keep_probability, kept, 0)
