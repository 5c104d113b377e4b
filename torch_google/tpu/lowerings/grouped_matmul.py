# SPDX-License-Identifier: Apache-2.0
"""Matmuls of groups of rows, columns or inner elements, as in mixture-of-experts models.

A group is a range that begins at the previous group's offset and ends at its own. The offsets are
tensor values, so a program cannot contain one matmul per group, because the shape of each matmul
would have to be fixed. Instead, the program loops over the overlapping pairs of a group and a tile
of rows, and computes a matmul for each pair. The number of pairs is at most the number of tiles
plus the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.matmul import matmul
from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering

# The number of rows in a tile, which is the size of a TPU's matrix unit.
_TILE = 128


@lowering("aten::_grouped_mm")
def grouped_mm(
    a: jax.Array,
    b: jax.Array,
    offs: jax.Array | None = None,
    bias: None = None,
    out_dtype: Any = None,
) -> jax.Array:
    """Compute a matmul per group. The ranks of `a` and `b` determine which dimension is grouped."""
    if offs is None:
        return matmul(a, b)
    if b.ndim == 3:
        return _of_rows(a, b, offs)
    if a.ndim == 3:
        return _of_rows(b.T, a.mT, offs).T
    return _of_inner(a.T, b, offs)


def _of_rows(a: jax.Array, b: jax.Array, offs: jax.Array) -> jax.Array:
    """Return a[rows of group g] @ b[g] for each group. Rows outside all groups are 0."""

    def visit(rows: jax.Array, group: jax.Array, mask: jax.Array, out: jax.Array) -> jax.Array:
        product = matmul(a.at[rows].get(mode="fill", fill_value=0), b[group]).astype(a.dtype)
        # Select rows instead of adding products, because 0 times an infinity in a group's matrix is
        # NaN.
        old = out.at[rows].get(mode="fill", fill_value=0)
        return out.at[rows].set(jnp.where(mask, product, old), mode="drop")

    return _visit_pairs(visit, jnp.zeros((a.shape[0], b.shape[2]), a.dtype), a.shape[0], offs)


def _of_inner(a: jax.Array, b: jax.Array, offs: jax.Array) -> jax.Array:
    """Return a[rows of group g].T @ b[rows of group g] for each group."""

    def visit(rows: jax.Array, group: jax.Array, mask: jax.Array, out: jax.Array) -> jax.Array:
        tiles = (x.at[rows].get(mode="fill", fill_value=0) for x in (a, b))
        left, right = (opmath(jnp.where(mask, tile, 0)) for tile in tiles)
        return out.at[group].add(matmul(left.T, right))

    shape = (offs.shape[0], a.shape[1], b.shape[1])
    return _visit_pairs(visit, opmath(jnp.zeros(shape, a.dtype)), a.shape[0], offs).astype(a.dtype)


def _visit_pairs(
    visit: Callable[[jax.Array, jax.Array, jax.Array, jax.Array], jax.Array],
    start: jax.Array,
    count: int,
    offs: jax.Array,
) -> jax.Array:
    """Call `visit` for each overlapping pair of a group and a tile. Return the last result.

    The tiles partition `count` rows. `visit` receives the indices of the tile's rows, the index of
    the group, a boolean column vector that marks the group's rows, and the result of the previous
    call, or `start` in the first call.
    """
    size = max(1, min(_TILE, count))
    ends = offs.astype(jnp.int32).clip(0, count)
    begins = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    first = begins // size
    tiles = jnp.where(ends > begins, -(-ends // size) - first, 0)
    visited = jnp.cumsum(tiles, dtype=jnp.int32)

    def body(pair: jax.Array, out: jax.Array) -> jax.Array:
        group = jnp.searchsorted(visited, pair, side="right")
        tile = first[group] + pair - (visited[group] - tiles[group])
        rows = tile * size + jnp.arange(size, dtype=jnp.int32)
        inside = (rows >= begins[group]) & (rows < ends[group])
        return visit(rows, group, inside[:, None], out)

    if not offs.shape[0] or not count:
        return start  # a tile cannot be read from an operand that has no rows
    return jax.lax.fori_loop(0, visited[-1], body, start)
