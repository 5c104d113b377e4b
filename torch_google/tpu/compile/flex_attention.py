# SPDX-License-Identifier: Apache-2.0
"""Lowers the operators of torch.nn.attention.flex_attention, forward and backward.

As in torch's eager implementation, all scores are computed, and `score_mod` and `mask_mod` are
vectorized over batch entries, heads, queries and keys. Blocks of the mask are not skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from torch.fx import GraphModule

from torch_google.tpu.lowerings.table import lowering

_LN2 = math.log(2.0)
# A joint graph returns the gradients of the score and of four indices, and then of the buffers.
_BUFFERS = 5


class _Runner(Protocol):
    """The method of `Evaluation` that runs a subgraph."""

    def sub(self, graph: GraphModule, inputs: Sequence[Any], key: Any) -> list[Any]: ...


def forward(
    runner: _Runner,
    position: int,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    score_mod: GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Mapping[str, Any],
    score_buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> list[jax.Array]:
    """Return the output, and each row's logsumexp and maximum score, both divided by ln 2."""
    key, value = _expand(key, query), _expand(value, query)
    scores = _scores(query, key, scale)
    allowed = _allowed(runner, block_mask, scores, mask_buffers)
    modified = _over_scores(runner, score_mod, scores, (), score_buffers).astype(scores.dtype)
    modified = jnp.where(allowed, modified, -jnp.inf)
    highest = modified.max(axis=-1)
    finite = jnp.where(jnp.isneginf(highest), 0, highest)[..., None]
    weights = jnp.exp(modified - finite)
    total = weights.sum(axis=-1)
    # A row without any key has weights of 0, and a logsumexp of -inf.
    weights = weights / jnp.where(total == 0, 1, total)[..., None]
    logsumexp = finite[..., 0] + jnp.log(total)
    out = _product(weights.astype(query.dtype), value).astype(query.dtype)
    return [out, logsumexp / _LN2, highest / _LN2]


def backward(
    runner: _Runner,
    position: int,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    out: jax.Array,
    logsumexp: jax.Array,
    grad_out: jax.Array | None,
    grad_logsumexp: jax.Array | None,
    score_mod: GraphModule,
    joint: GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Mapping[str, Any],
    score_buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> list[Any]:
    """Return the gradients of query, key, value, and the buffers that `score_mod` reads.

    The gradient of a buffer is None if torch does not need it.
    """
    keys, values = _expand(key, query), _expand(value, query)
    scores = _scores(query, keys, scale)
    wide = scores.dtype
    grad_out = jnp.zeros_like(out) if grad_out is None else grad_out
    allowed = _allowed(runner, block_mask, scores, mask_buffers)
    modified = _over_scores(runner, score_mod, scores, (), score_buffers).astype(wide)
    lse = (logsumexp * _LN2)[..., None]
    visible = allowed & ~jnp.isneginf(lse)
    weights = jnp.where(visible, jnp.exp(jnp.where(visible, modified - lse, 0)), 0)
    grad_weights = _product(grad_out.astype(wide), jnp.swapaxes(values.astype(wide), -2, -1))
    inner = (out.astype(wide) * grad_out.astype(wide)).sum(axis=-1, keepdims=True)
    shift = 0 if grad_logsumexp is None else (grad_logsumexp / _LN2)[..., None]
    grad_modified = weights * (grad_weights - inner + shift)
    grad_modified = jnp.where(allowed, grad_modified, 0)
    needed: list[bool] = []
    grad_scores = _over_scores(runner, joint, scores, (grad_modified,), score_buffers, needed)
    grad_buffers = _grad_buffers(
        runner, joint, scores, grad_modified, score_buffers, needed[_BUFFERS - 1 :]
    )
    grad_scores = jnp.where(allowed, grad_scores * scale, 0).astype(query.dtype)
    grad_query = _product(grad_scores, keys)
    grad_keys = _product(jnp.swapaxes(grad_scores, -2, -1), query)
    grad_values = _product(jnp.swapaxes(weights.astype(query.dtype), -2, -1), grad_out)
    return [
        grad_query.astype(query.dtype),
        _reduce(grad_keys, key),
        _reduce(grad_values, value),
        grad_buffers,
    ]


@lowering("flex_lib::zeros_and_scatter")
def zeros_and_scatter(
    shape: Sequence[int], indices: Sequence[jax.Array], values: jax.Array
) -> jax.Array:
    """Add values to a tensor of zeros. torch calls this in the gradient of an indexed buffer."""
    return jnp.zeros(tuple(shape), values.dtype).at[tuple(indices)].add(values)


def _scores(query: jax.Array, key: jax.Array, scale: float) -> jax.Array:
    wide = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    return _product(query.astype(wide), jnp.swapaxes(key.astype(wide), -2, -1)) * scale


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    half = a.dtype in (jnp.float16, jnp.bfloat16)
    return jnp.matmul(a, b, preferred_element_type=jnp.float32 if half else a.dtype)


def _expand(x: jax.Array, query: jax.Array) -> jax.Array:
    """Repeat keys or values for the queries' batch entries and groups of heads."""
    x = jnp.repeat(x, query.shape[1] // x.shape[1], axis=1)
    return jnp.broadcast_to(x, (query.shape[0], *x.shape[1:]))


def _reduce(grad: jax.Array, like: jax.Array) -> jax.Array:
    """Sum the gradient of repeated keys or values."""
    batch, heads, *rest = grad.shape
    grad = grad.reshape(batch, like.shape[1], heads // like.shape[1], *rest).sum(axis=2)
    if batch != like.shape[0]:
        grad = grad.sum(axis=0, keepdims=True)
    return grad.astype(like.dtype)


def _allowed(
    runner: _Runner, block_mask: Sequence[Any], scores: jax.Array, buffers: Sequence[Any]
) -> jax.Array:
    def allowed(*indices: Any) -> jax.Array:
        return jnp.asarray(runner.sub(block_mask[-1], [*indices, *buffers], None)[0])

    mask = _vectorized(allowed, 0)(*_indices(scores))
    return jnp.broadcast_to(mask, scores.shape)


def _grad_buffers(
    runner: _Runner,
    joint: GraphModule,
    scores: jax.Array,
    grad: jax.Array,
    buffers: Sequence[Any],
    needed: Sequence[bool],
) -> list[jax.Array | None]:
    """Return the gradients of the `needed` buffers, summed over all scores.

    For each score, `joint` returns a gradient as large as the buffer. So only the scores of one
    row are vectorized, and a loop adds up the rows.
    """
    positions = [i for i, is_needed in enumerate(needed) if is_needed]
    if not positions:
        return [None] * len(buffers)
    keys = jnp.arange(scores.shape[-1], dtype=jnp.int64)
    rows = jnp.indices(scores.shape[:-1], dtype=jnp.int64).reshape(3, -1)

    def gradients(indices: jax.Array, key: jax.Array, score: jax.Array, g: jax.Array) -> list[Any]:
        results = runner.sub(joint, [score, *indices, key, g, *buffers], None)
        return [results[_BUFFERS + i] for i in positions]

    def add(sums: list[jax.Array], row: Any) -> tuple[list[jax.Array], None]:
        parts = jax.vmap(gradients, in_axes=(None, 0, 0, 0))(row[0], keys, row[1], row[2])
        return [sums[i] + part.astype(sums[i].dtype).sum(0) for i, part in enumerate(parts)], None

    zeros = [
        jnp.zeros(buffers[i].shape, jnp.promote_types(buffers[i].dtype, jnp.float32))
        for i in positions
    ]
    flat = [x.reshape(-1, x.shape[-1]) for x in (scores, grad)]
    sums, _ = jax.lax.scan(add, zeros, (rows.T, *flat))
    grads = {i: x.astype(buffers[i].dtype) for i, x in zip(positions, sums, strict=True)}
    return [grads.get(i) for i in range(len(buffers))]


def _over_scores(
    runner: _Runner,
    graph: GraphModule,
    scores: jax.Array,
    grads: tuple[jax.Array, ...],
    buffers: Sequence[Any],
    others_exist: list[bool] | None = None,
) -> jax.Array:
    """Return, for each score, the first result of `score_mod`, or of its joint graph for `grads`.

    Store in `others_exist` which of the other results are not None.
    """

    def result(score: Any, *rest: Any) -> jax.Array:
        first, *others = runner.sub(graph, [score, *rest, *buffers], None)
        if others_exist is not None:
            others_exist[:] = [other is not None for other in others]
        return jnp.asarray(first)

    dense = (scores, *grads)

    def reordered(*arguments: Any) -> jax.Array:
        values, indices = arguments[: len(dense)], arguments[len(dense) :]
        return result(values[0], *indices, *values[1:])

    mapped = _vectorized(reordered, len(dense))(*dense, *_indices(scores))
    return jnp.broadcast_to(mapped, scores.shape)


def _indices(scores: jax.Array) -> list[jax.Array]:
    return [jnp.arange(size, dtype=jnp.int64) for size in scores.shape]


def _vectorized(function: Callable[..., jax.Array], dense: int) -> Callable[..., jax.Array]:
    """Vectorize over the dimensions of the first `dense` arguments, and the four indices next."""
    for axis in reversed(range(4)):
        indices = [0 if axis == other else None for other in range(4)]
        # The outer maps have removed the dimensions before this one.
        function = jax.vmap(function, in_axes=(*([0] * dense), *indices))
    return function
