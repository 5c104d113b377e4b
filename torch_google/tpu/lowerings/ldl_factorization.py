# SPDX-License-Identifier: Apache-2.0
"""Factors indefinite symmetric and Hermitian matrices, and solves linear systems with them.

This is the Bunch-Kaufman method for lower triangles from LAPACK's sytrf and hetrf, with 1x1 and 2x2
pivot blocks. It chooses the same pivots as LAPACK, so that results equal torch's on the CPU.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.factorizations import NO_WIDE_LU
from torch_google.tpu.lowerings.platform_choice import refuse_on_tpu
from torch_google.tpu.lowerings.table import lowering

_ALPHA = (1 + math.sqrt(17)) / 8
_State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


@lowering("aten::linalg_ldl_factor_ex")
def ldl_factor_ex(
    a: jax.Array, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the factors' lower triangle, LAPACK's pivots, and the first zero pivot's index."""
    size = a.shape[-1]
    if not a.size:
        return a, jnp.zeros(a.shape[:-1], jnp.int32), jnp.zeros(a.shape[:-2], jnp.int32)
    flat = a.reshape(-1, size, size)
    hermitian = hermitian and jnp.iscomplexobj(a)
    packed, pivots, info = jax.vmap(lambda one: _factor(one, hermitian))(flat)
    lead = a.shape[:-2]
    return jnp.tril(packed).reshape(a.shape), pivots.reshape(*lead, size), info.reshape(lead)


@lowering("aten::linalg_ldl_solve")
def ldl_solve(
    packed: jax.Array, pivots: jax.Array, b: jax.Array, *, hermitian: bool = False
) -> jax.Array:
    size = packed.shape[-1]
    lead = jnp.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    if not (packed.size and b.size):
        return jnp.broadcast_to(b, (*lead, *b.shape[-2:]))
    hermitian = hermitian and jnp.iscomplexobj(packed)

    def solve(*arrays: jax.Array) -> jax.Array:
        solution: jax.Array = jax.vmap(lambda ld, swaps, x: _solve(ld, swaps, x, hermitian))(
            *arrays
        )
        return solution

    arrays = (
        jnp.broadcast_to(packed, (*lead, size, size)).reshape(-1, size, size),
        jnp.broadcast_to(pivots, (*lead, size)).reshape(-1, size),
        jnp.broadcast_to(b, (*lead, *b.shape[-2:])).reshape(-1, *b.shape[-2:]),
    )
    name = "aten::linalg_ldl_solve"
    solution: jax.Array = refuse_on_tpu(
        solve, *arrays, name=name, reason=NO_WIDE_LU, only_64_bits=True
    )
    return solution.reshape(*lead, *b.shape[-2:])


def _factor(a: jax.Array, hermitian: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    size = a.shape[-1]
    below = jnp.tril(a, -1)
    diagonal = jnp.diag(a).real.astype(a.dtype) if hermitian else jnp.diag(a)
    symmetric = below + (below.conj().T if hermitian else below.T) + jnp.diag(diagonal)
    start = (
        symmetric,
        jnp.zeros(size, jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), jnp.int32),
    )
    step = lambda state: _step(state, hermitian)  # noqa: E731
    factored = jax.lax.while_loop(lambda state: state[2] < size, step, start)
    return factored[0], factored[1], factored[3]


def _step(state: _State, hermitian: bool) -> _State:
    """Eliminate a 1x1 or 2x2 pivot block at `k`, and update the rest of the matrix."""
    a, pivots, k, info = state
    size = a.shape[-1]
    rows = jnp.arange(size)
    column = jnp.where(rows > k, _size(a[:, k]), -1)
    largest, pivot = jnp.max(column), jnp.argmax(column)
    here = _size(a[k, k])
    row = jnp.where((rows >= k) & (rows != pivot), _size(a[pivot]), -1)
    of_row = jnp.max(row)
    none = jnp.maximum(here, jnp.maximum(largest, 0)) == 0
    stay = none | (here >= _ALPHA * largest) | (here >= _ALPHA * largest * (largest / of_row))
    single = stay | (_size(a[pivot, pivot]) >= _ALPHA * of_row)
    target = jnp.where(single, k, k + 1)
    other = jnp.where(stay, k, pivot)
    order = rows.at[target].set(other).at[other].set(target)
    # Swap only the rows and columns from index k on: LAPACK leaves the earlier columns of the
    # factor unchanged.
    swapped = a[order][:, order]
    live = (rows[:, None] >= k) & (rows[None, :] >= k)
    a = jnp.where(live, swapped, a)
    one = _one(a, k, hermitian)
    two = _two(a, k, hermitian)
    a = jnp.where(none, a, jnp.where(single, one, two))
    mark = jnp.where(single, other + 1, -(other + 1)).astype(jnp.int32)
    second = jnp.where(single, pivots[jnp.minimum(k + 1, size - 1)], mark)
    pivots = pivots.at[jnp.minimum(k + 1, size - 1)].set(second).at[k].set(mark)
    info = jnp.where(none & (info == 0), k + 1, info).astype(jnp.int32)
    return a, pivots, k + jnp.where(single, 1, 2), info


def _one(a: jax.Array, k: jax.Array, hermitian: bool) -> jax.Array:
    rows = jnp.arange(a.shape[-1])
    column = jnp.where(rows > k, a[:, k] / a[k, k], 0)
    rest = jnp.outer(column, _other(column, hermitian)) * a[k, k]
    return (a - rest).at[:, k].set(jnp.where(rows > k, column, a[:, k]))


def _two(a: jax.Array, k: jax.Array, hermitian: bool) -> jax.Array:
    size = a.shape[-1]
    rows, after = jnp.arange(size), jnp.minimum(k + 1, size - 1)
    block = a[jnp.stack([k, after])][:, jnp.stack([k, after])]
    (p, q), (r, s) = block
    determinant = p * s - q * r
    inverse = jnp.stack([jnp.stack([s, -q]), jnp.stack([-r, p])]) / determinant
    pair = jnp.where(rows[:, None] > after, jnp.stack([a[:, k], a[:, after]], 1), 0)
    columns = pair @ inverse
    rest = columns @ _other(pair, hermitian).T
    a = a - rest
    for position, column in enumerate((k, after)):
        a = a.at[:, column].set(jnp.where(rows > after, columns[:, position], a[:, column]))
    return a


def _solve(packed: jax.Array, pivots: jax.Array, b: jax.Array, hermitian: bool) -> jax.Array:
    """Solve by substitution, block by block, swapping rows in LAPACK's order."""
    size = packed.shape[-1]
    rows = jnp.arange(size)
    in_pair = pivots < 0
    # Find the first pivot of each 2x2 block: every other one in a run of negative pivots.
    first = jax.lax.scan(
        lambda open_, negative: (negative & ~open_, negative & ~open_), jnp.array(False), in_pair
    )[1]
    second = in_pair & ~first
    lower = jnp.tril(packed, -1)
    joined = jnp.diag(packed, -1) * first[:-1]
    lower = lower - jnp.diag(joined, -1)
    diagonal = jnp.diag(packed)
    if hermitian:
        diagonal = diagonal.real.astype(packed.dtype)
    block = jnp.diag(diagonal) + jnp.diag(joined, -1) + jnp.diag(_other(joined, hermitian), 1)

    def exchange(x: jax.Array, k: jax.Array) -> jax.Array:
        other = jnp.where(first[k], k, jnp.abs(pivots[k]) - 1)
        return x[rows.at[k].set(other).at[other].set(k)]

    def column(k: jax.Array) -> jax.Array:
        return lower[:, k]

    def forward(k: jax.Array, x: jax.Array) -> jax.Array:
        # For a 2x2 block, swap rows at the second pivot, then eliminate both columns.
        x = exchange(x, k)
        before = jnp.maximum(k - 1, 0)
        x = x - jnp.outer(jnp.where(second[k], column(before), 0), x[before])
        return x - jnp.outer(jnp.where(first[k], 0, column(k)), x[k])

    def backward(i: jax.Array, x: jax.Array) -> jax.Array:
        k = size - 1 - i
        before = jnp.maximum(k - 1, 0)
        own = x[k] - jnp.where(first[k], 0, _other(column(k), hermitian) @ x)
        x = x.at[k].set(own)
        paired = x[before] - _other(column(before), hermitian) @ x
        x = x.at[before].set(jnp.where(second[k], paired, x[before]))
        return exchange(x, k)

    x = jax.lax.fori_loop(0, size, forward, b)
    x = jnp.linalg.solve(block, x)
    return jax.lax.fori_loop(0, size, backward, x)


def _other(x: jax.Array, hermitian: bool) -> jax.Array:
    return x.conj() if hermitian else x


def _size(x: jax.Array) -> jax.Array:
    """Return the magnitude as LAPACK measures it: |re| + |im|."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)
