# SPDX-License-Identifier: Apache-2.0
"""Reductions over consecutive segments along a dimension."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.promotion import Array, Operand, computed
from torch_google.tpu.lowerings.table import lowering

_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


@lowering("aten::segment_reduce")
def segment_reduce(
    data: Array,
    reduce: str,
    *,
    lengths: Array | None = None,
    indices: Array | None = None,
    offsets: Array | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Operand = None,
) -> Array:
    """Reduce each segment, starting from `initial`. By default, an empty segment's mean is NaN."""
    (x,) = computed(data)
    axis %= max(x.ndim, 1)
    if lengths is not None:
        ends = jnp.cumsum(lengths, axis=-1)
        starts = ends - lengths
    elif offsets is not None:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    else:
        raise NotImplementedError(
            "tpu: aten::segment_reduce: indices alone do not define segments. Pass lengths or offsets"
        )
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    places = jnp.arange(x.shape[axis])
    row = places.reshape([1] * axis + [1, -1])
    inside = (row >= starts[..., None]) & (row < ends[..., None])
    count = starts.shape[-1]
    # The index of each element's segment, or the number of segments if the element is in none.
    target = jnp.where(jnp.any(inside, axis=-2), jnp.argmax(inside, axis=-2), count)
    rows = [
        jnp.arange(size).reshape([-1 if position == i else 1 for i in range(axis + 1)])
        for position, size in enumerate(lead)
    ]
    begin = _NEUTRAL[reduce] if initial is None else initial
    base = jnp.broadcast_to(jnp.asarray(begin, x.dtype), (*lead, count, *rest))
    cells = base.at[(*rows, target)]
    if reduce == "max":
        return cells.max(x, mode="drop")
    if reduce == "min":
        return cells.min(x, mode="drop")
    if reduce == "prod":
        return cells.multiply(x, mode="drop")
    total = cells.add(x, mode="drop")
    if reduce == "sum":
        return total
    size = (ends - starts).reshape(*lead, count, *[1] * len(rest))
    empty = jnp.nan if initial is None else total
    return jnp.where(size == 0, empty, total / jnp.maximum(size, 1).astype(x.dtype))


@lowering("aten::_segment_reduce_backward")
def segment_reduce_backward(
    grad: Array,
    output: Array,
    data: Array,
    reduce: str,
    *,
    lengths: Array | None = None,
    offsets: Array | None = None,
    axis: int = 0,
    initial: Operand = None,
) -> Array:
    """Return the gradient. Tied extrema share it equally.

    The gradient of a product is exact even if a factor is 0.
    """
    (x, total, slope) = computed(data, output, grad)

    def summed(values: Array) -> Array:
        return segment_reduce(values, "sum", lengths=lengths, offsets=offsets, axis=axis)

    def spread(values: Array) -> Array:
        """Broadcast the value of each segment to the segment's elements."""
        return jax.vjp(summed, x)[1](values)[0]

    if reduce == "sum":
        return spread(slope)
    if reduce == "mean":
        return spread(slope / jnp.maximum(summed(jnp.ones_like(x)), 1))
    if reduce == "prod":
        # For each element, compute the product of the other elements in its segment: divide the
        # segment's product by the element, unless the element is 0 or NaN.
        odd = (x == 0) | jnp.isnan(x)
        rest = segment_reduce(
            jnp.where(odd, 1, x),
            "prod",
            lengths=lengths,
            offsets=offsets,
            axis=axis,
            initial=initial,
        )
        alone = spread(summed(odd.astype(x.dtype))) == 1
        without = jnp.where(odd, jnp.where(alone, spread(rest), 0), spread(total) / x)
        return without * spread(slope)
    chosen = (x == spread(total)) | jnp.isnan(x)
    return jnp.where(chosen, spread(slope / jnp.maximum(summed(chosen.astype(x.dtype)), 1)), 0)
