# SPDX-License-Identifier: Apache-2.0
"""Embeddings: table lookups by index, reductions over bags of rows, and gradients of the table."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

_SUM, _MEAN, _MAX = 0, 1, 2
_Four = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


@lowering("aten::embedding")
def embedding(
    weight: jax.Array,
    indices: jax.Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> jax.Array:
    return _rows(weight, indices)


@lowering("aten::embedding_dense_backward")
def embedding_dense_backward(
    grad: jax.Array,
    indices: jax.Array,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> jax.Array:
    flat = indices.reshape(indices.size)
    rows = opmath(grad).reshape(indices.size, grad.shape[-1])
    return _to_table(rows, flat, num_weights, padding_idx, scale_grad_by_freq)


@lowering("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag(
    weight: jax.Array,
    indices: jax.Array,
    offsets: jax.Array,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: jax.Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> _Four:
    """Return the reduced bags, the bag of each index, the bag sizes, and the indices of maxima."""
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    bag = _bag_of(indices, offsets, bags)
    counts = indices != padding_idx
    size = jax.ops.segment_sum(counts.astype(indices.dtype), bag, bags)
    rows = opmath(_rows(weight, indices))
    sizes = jnp.zeros(offsets.shape, indices.dtype).at[:bags].set(size)
    if mode == _MAX:
        out, where = _max_bags(rows, indices, bag, counts, bags)
        return out, bag, sizes, where
    if per_sample_weights is not None:
        rows = rows * opmath(per_sample_weights)[:, None]
    out = jax.ops.segment_sum(jnp.where(counts[:, None], rows, 0), bag, bags)
    if mode == _MEAN:
        out = out / jnp.maximum(size, 1)[:, None].astype(out.dtype)
    return out, bag, sizes, jnp.zeros((0,), indices.dtype)


@lowering("aten::_embedding_bag_backward")
def embedding_bag_backward(
    grad: jax.Array,
    indices: jax.Array,
    offsets: jax.Array,
    offset2bag: jax.Array,
    bag_size: jax.Array,
    maximum_indices: jax.Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: jax.Array | None,
    padding_idx: int = -1,
) -> jax.Array:
    bag = _bag_of(indices, offsets, grad.shape[0])
    options = (num_weights, scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return embedding_bag_dense_backward(grad, indices, bag, bag_size, maximum_indices, *options)


@lowering("aten::_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    grad: jax.Array,
    indices: jax.Array,
    offset2bag: jax.Array,
    bag_size: jax.Array,
    maximum_indices: jax.Array,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: jax.Array | None,
    padding_idx: int = -1,
) -> jax.Array:
    grad = opmath(grad)
    if mode == _MAX:
        # A bag that is empty or contains only padding has no maximum. Its index is -1, so its
        # gradient is dropped.
        columns = jnp.arange(grad.shape[1])
        where = jnp.where(maximum_indices < 0, num_weights, maximum_indices)
        live = jnp.broadcast_to((bag_size[: grad.shape[0]] > 0)[:, None], grad.shape)
        table = jnp.zeros((num_weights, grad.shape[1]), grad.dtype)
        return table.at[where, columns].add(jnp.where(live, grad, 0), mode="drop")
    rows = _rows(grad, offset2bag)
    if mode == _MEAN:
        rows = rows / jnp.maximum(bag_size[offset2bag], 1)[:, None].astype(rows.dtype)
    if per_sample_weights is not None:
        rows = rows * opmath(per_sample_weights)[:, None]
    return _to_table(rows, indices, num_weights, padding_idx, scale_grad_by_freq)


@lowering("aten::_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    grad: jax.Array,
    weight: jax.Array,
    indices: jax.Array,
    offsets: jax.Array,
    offset2bag: jax.Array,
    mode: int,
    padding_idx: int = -1,
) -> jax.Array:
    bag = _bag_of(indices, offsets, grad.shape[0])
    products = _rows(opmath(grad), bag) * opmath(_rows(weight, indices))
    return jnp.where(indices == padding_idx, 0, products.sum(1))


@lowering("aten::embedding_renorm")
def embedding_renorm(
    weight: jax.Array, indices: jax.Array, max_norm: Any, norm_type: Any
) -> jax.Array:
    """Scale down the rows listed in `indices` whose norm exceeds `max_norm`."""
    wide = opmath(weight)
    # float() needs a concrete value, so the program is specialized to this number.
    norm_type = float(norm_type)
    norms = jnp.linalg.norm(wide, ord=norm_type, axis=1, keepdims=True)
    shrunk = wide * (max_norm / (norms + 1e-7)).astype(wide.dtype)
    flat = indices.reshape(indices.size)
    named = jnp.zeros((len(weight), 1), bool).at[flat].set(True, wrap_negative_indices=False)
    return jnp.where(named & (norms > max_norm), shrunk, wide)


def _rows(table: jax.Array, indices: jax.Array) -> jax.Array:
    if not table.shape[0]:
        return jnp.zeros((*indices.shape, *table.shape[1:]), table.dtype)
    return jnp.take(table, indices, axis=0, mode="clip")


def _to_table(
    rows: jax.Array, indices: jax.Array, size: int, padding_idx: int, by_frequency: bool
) -> jax.Array:
    mask = (indices != padding_idx) if padding_idx >= 0 else jnp.ones(indices.shape, bool)
    if by_frequency:
        counts = jnp.zeros((size,), rows.dtype).at[indices].add(1, wrap_negative_indices=False)
        rows = rows / jnp.maximum(counts, 1)[indices][:, None]
    rows = jnp.where(mask[:, None], rows, 0)
    table = jnp.zeros((size, rows.shape[1]), rows.dtype)
    return table.at[indices].add(rows, wrap_negative_indices=False)


def _bag_of(indices: jax.Array, offsets: jax.Array, bags: int) -> jax.Array:
    """Return the bag of each position: the last bag that starts at or before the position."""
    places = jnp.arange(indices.shape[0], dtype=offsets.dtype)
    bag = jnp.searchsorted(offsets[:bags], places, side="right") - 1
    return bag.astype(indices.dtype)


def _max_bags(
    rows: jax.Array, indices: jax.Array, bag: jax.Array, counts: jax.Array, bags: int
) -> tuple[jax.Array, jax.Array]:
    places = jnp.arange(len(rows))
    # In torch, a NaN at the start of a bag is the maximum, and any later NaN is ignored.
    begins = places == jax.ops.segment_min(jnp.where(counts, places, len(rows)), bag, bags)[bag]
    valid = counts[:, None] & (begins[:, None] | ~jnp.isnan(rows))
    masked = jnp.where(valid, rows, -jnp.inf)
    best = jax.ops.segment_max(masked, bag, bags)
    # The index of a maximum is its first position in the bag.
    wins = ((masked == best[bag]) | jnp.isnan(masked)) & counts[:, None]
    first = jax.ops.segment_min(jnp.where(wins, places[:, None], len(rows)), bag, bags)
    has_maximum = (first < len(rows)) & (first >= 0)
    chosen = _rows(indices, jnp.where(has_maximum, first, 0))
    return jnp.where(has_maximum, best, 0), jnp.where(has_maximum, chosen, -1)
