# SPDX-License-Identifier: Apache-2.0
"""Triangular and general linear systems, inverses, determinants and least squares."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.factorizations import (
    adjoint,
    lu_factors,
    permutation,
    singular_vectors,
)
from torch_google.tpu.lowerings.table import lowering

_Pair = tuple[jax.Array, jax.Array]


@lowering("aten::linalg_solve_triangular")
def solve_triangular(
    a: jax.Array, b: jax.Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> jax.Array:
    a, b = _broadcast(a, b)
    return _triangular(a, b, left=left, lower=not upper, unit=unitriangular)


@lowering("aten::triangular_solve")
def triangular_solve(
    b: jax.Array,
    a: jax.Array,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> _Pair:
    a, b = _broadcast(a, b)
    if transpose:
        a, upper = jnp.swapaxes(a, -1, -2), not upper
    out = _triangular(a, b, lower=not upper, unit=unitriangular)
    return out, (jnp.swapaxes(a, -1, -2) if transpose else a)


@lowering("aten::cholesky_solve")
def cholesky_solve(b: jax.Array, factor: jax.Array, upper: bool = False) -> jax.Array:
    factor, b = _broadcast(factor, b)
    lower = adjoint(factor) if upper else factor
    middle = _triangular(lower, b, lower=True)
    return _triangular(adjoint(lower), middle, lower=False)


@lowering("aten::cholesky_inverse")
def cholesky_inverse(factor: jax.Array, upper: bool = False) -> jax.Array:
    return cholesky_solve(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


@lowering("aten::linalg_lu_solve")
def lu_solve(
    packed: jax.Array,
    pivots: jax.Array,
    b: jax.Array,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> jax.Array:
    lead = jnp.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    packed, b = (jnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (packed, b))
    pivots = jnp.broadcast_to(pivots, (*lead, pivots.shape[-1]))
    if left:
        return _lu_solve(packed, pivots, b, adjoint)
    # X A = B is equivalent to A^H X^H = B^H.
    return _adjoint(_lu_solve(packed, pivots, _adjoint(b), not adjoint))


@lowering("aten::_linalg_solve_ex")
def solve_ex(
    a: jax.Array, b: jax.Array, *, left: bool = True, check_errors: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    packed, pivots, info = lu_factors(a, name="aten::_linalg_solve_ex")
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])
    columns = b[..., None] if vector else b
    out = lu_solve(packed, pivots, columns, left=left or vector)
    return (out[..., 0] if vector else out), packed, pivots, info


@lowering("aten::linalg_inv_ex")
def inv_ex(a: jax.Array, *, check_errors: bool = False) -> _Pair:
    packed, pivots, info = lu_factors(a, name="aten::linalg_inv_ex")
    eye = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return _lu_solve(packed, pivots, eye, False), info


@lowering("aten::_linalg_det")
def det(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    packed, pivots, _ = lu_factors(_factored(a), name="aten::_linalg_det")
    diagonal = jnp.diagonal(packed, axis1=-2, axis2=-1)
    return diagonal.prod(-1) * _sign_of(pivots, a.dtype), packed, pivots


@lowering("aten::_linalg_slogdet")
def slogdet(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    packed, pivots, _ = lu_factors(_factored(a), name="aten::_linalg_slogdet")
    diagonal = jnp.diagonal(packed, axis1=-2, axis2=-1)
    sign = jnp.sign(diagonal).prod(-1) * _sign_of(pivots, a.dtype)
    return sign, jnp.log(jnp.abs(diagonal)).sum(-1), packed, pivots


@lowering("aten::linalg_lstsq")
def lstsq(
    a: jax.Array, b: jax.Array, rcond: Any = None, *, driver: str | None = None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the least-norm solution by SVD. `driver` determines which other results are empty."""
    m, n = a.shape[-2:]
    vector = a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape
    columns = b[..., None] if vector else b
    real = jnp.finfo(a.dtype).dtype
    driver = driver or "gelsy"
    cut = jnp.finfo(real).eps * max(m, n) if rcond is None or driver == "gels" else rcond
    u, values, vh = singular_vectors(a, full_matrices=False)
    mask = values > cut * values.max(-1, keepdims=True, initial=0)
    inverse = jnp.where(mask, 1 / jnp.where(mask, values, 1), 0)
    out = _adjoint(vh) @ (inverse[..., None] * (_adjoint(u) @ columns))
    lead = a.shape[:-2]
    residuals = jnp.zeros((0,), real)
    if m > n and driver != "gelsy":
        residuals = jnp.square(jnp.abs(columns - a @ out)).sum(-2)
    rank = jnp.zeros((0,), jnp.int64) if driver == "gels" else mask.sum(-1).reshape(lead)
    kept_values = values if driver in ("gelsd", "gelss") else jnp.zeros((0,), real)
    return (out[..., 0] if vector else out), residuals, rank, kept_values


@lowering("aten::linalg_pinv.atol_rtol_tensor")
def pinv(
    a: jax.Array,
    *,
    atol: jax.Array | None = None,
    rtol: jax.Array | None = None,
    hermitian: bool = False,
) -> jax.Array:
    m, n = a.shape[-2:]
    if not a.size:
        return jnp.zeros((*a.shape[:-2], n, m), a.dtype)
    if hermitian:
        values, vectors = jnp.linalg.eigh(a, symmetrize_input=False)
        left, right, sizes = vectors, _adjoint(vectors), jnp.abs(values)
    else:
        u, values, vh = singular_vectors(a, full_matrices=False)
        left, right, sizes = _adjoint(vh), _adjoint(u), values
    usual = jnp.asarray(jnp.finfo(sizes.dtype).eps * max(m, n), sizes.dtype)
    absolute = jnp.zeros((), sizes.dtype) if atol is None else atol
    if rtol is None:
        rtol = jnp.where(absolute > 0, 0, usual)
    cut = jnp.maximum(absolute[..., None], rtol[..., None] * sizes.max(-1, keepdims=True))
    inverse = jnp.where(sizes > cut, 1 / jnp.where(sizes > cut, values, 1), 0)
    return (left * inverse[..., None, :]) @ right


def _factored(a: jax.Array) -> jax.Array:
    """Return the matrix that torch factors for a determinant: the transpose of `a`, if real."""
    return a if jnp.iscomplexobj(a) else jnp.swapaxes(a, -1, -2)


def _adjoint(a: jax.Array) -> jax.Array:
    return adjoint(a)


def _broadcast(a: jax.Array, b: jax.Array) -> _Pair:
    lead = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (
        jnp.broadcast_to(a, (*lead, *a.shape[-2:])),
        jnp.broadcast_to(b, (*lead, *b.shape[-2:])),
    )


def _triangular(
    a: jax.Array, b: jax.Array, *, left: bool = True, lower: bool, unit: bool = False
) -> jax.Array:
    if not b.size:
        return b
    return jax.lax.linalg.triangular_solve(a, b, left_side=left, lower=lower, unit_diagonal=unit)


def _lu_solve(packed: jax.Array, pivots: jax.Array, b: jax.Array, adjointed: bool) -> jax.Array:
    if not b.size:
        return b
    order = permutation(pivots, packed.shape[-1])
    if adjointed:
        b = _triangular(_adjoint(packed), b, lower=True)
        b = _triangular(_adjoint(packed), b, lower=False, unit=True)
        return jnp.take_along_axis(b, jnp.argsort(order, axis=-1)[..., None], axis=-2)
    b = jnp.take_along_axis(b, order[..., None], axis=-2)
    b = _triangular(packed, b, lower=True, unit=True)
    return _triangular(packed, b, lower=False)


def _sign_of(pivots: jax.Array, dtype: Any) -> jax.Array:
    swaps = (pivots != jnp.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return jnp.where(swaps % 2 == 0, 1, -1).astype(dtype)
