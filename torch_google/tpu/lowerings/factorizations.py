# SPDX-License-Identifier: Apache-2.0
"""Factorizations (Cholesky, QR, LU, eigenvalues, singular values) and the matrix exponential."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu.lowerings.platform_choice import choose, has_64_bits, refuse_on_tpu
from torch_google.tpu.lowerings.table import lowering

_Pair = tuple[jax.Array, jax.Array]
_Three = tuple[jax.Array, jax.Array, jax.Array]

# Reasons in errors of the form "a TPU has no OPERATOR of DTYPE: REASON".
_NO_EIG = "JAX has no eigenvalues of general matrices there"
NO_WIDE_LU = "its compiler has no LU decomposition of 64-bit floats. Use float32"


@lowering("aten::linalg_cholesky_ex")
def cholesky_ex(a: jax.Array, *, upper: bool = False, check_errors: bool = False) -> _Pair:
    """Return the factor, and an `info` of 1 on failure: XLA does not report which minor failed."""
    if not a.size:
        return a, jnp.zeros(a.shape[:-2], jnp.int32)
    # Read only the triangle that the caller chose.
    lower = jax.lax.linalg.cholesky(adjoint(a) if upper else a, symmetrize_input=False)
    failed = jnp.isnan(jnp.diagonal(lower, axis1=-2, axis2=-1)).any(-1)
    return (adjoint(lower) if upper else jnp.tril(lower)), failed.astype(jnp.int32)


@lowering("aten::cholesky")
def cholesky(a: jax.Array, upper: bool = False) -> jax.Array:
    return cholesky_ex(a, upper=upper)[0]


@lowering("aten::linalg_qr")
def qr(a: jax.Array, mode: str = "reduced") -> _Pair:
    m, n = a.shape[-2:]
    if not a.size:
        wide = m if mode == "complete" else min(m, n)
        eye = jnp.broadcast_to(jnp.eye(m, wide, dtype=a.dtype), (*a.shape[:-2], m, wide))
        q = jnp.zeros((0,), a.dtype) if mode == "r" else eye
        return q, jnp.zeros((*a.shape[:-2], wide, n), a.dtype)
    if mode == "r":
        return jnp.zeros((0,), a.dtype), jnp.linalg.qr(a, mode="r")
    q, r = jnp.linalg.qr(a, mode=mode)
    return q, r


@lowering("aten::geqrf")
def geqrf(a: jax.Array) -> _Pair:
    if not a.size:
        return a, jnp.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    transposed, tau = jnp.linalg.qr(a, mode="raw")
    return jnp.swapaxes(transposed, -1, -2), tau


@lowering("aten::linalg_householder_product")
def householder_product(a: jax.Array, tau: jax.Array) -> jax.Array:
    if not a.size:
        return a
    if not tau.shape[-1]:
        return jnp.broadcast_to(jnp.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
    return jax.lax.linalg.householder_product(a, tau)


@lowering("aten::ormqr")
def ormqr(
    a: jax.Array, tau: jax.Array, other: jax.Array, left: bool = True, transpose: bool = False
) -> jax.Array:
    """Multiply `other` by Q or its adjoint, from either side, one reflector at a time."""
    if not other.size:
        return other
    size = a.shape[-2]
    order = range(tau.shape[-1])
    # Q = H1 H2 ... Hk. Multiplying by Q from the left, or by its adjoint from the right, applies Hk
    # first. In the other two cases, H1 comes first.
    for i in reversed(order) if left != transpose else order:
        head = jnp.zeros((*a.shape[:-2], i), a.dtype)
        one = jnp.ones((*a.shape[:-2], 1), a.dtype)
        v = jnp.concatenate([head, one, a[..., i + 1 : size, i]], axis=-1)[..., None]
        factor = tau[..., i, None, None]
        factor = jnp.conj(factor) if transpose else factor
        if left:
            other = other - factor * v @ (adjoint(v) @ other)
        else:
            other = other - factor * (other @ v) @ adjoint(v)
    return other


@lowering("aten::linalg_lu_factor_ex")
def lu_factor_ex(a: jax.Array, *, pivot: bool = True, check_errors: bool = False) -> _Three:
    """Return LU, 1-based pivots, and `info`: the 1-based index of U's first zero pivot, or 0."""
    return lu_factors(a, pivot=pivot, name="aten::linalg_lu_factor_ex")


def lu_factors(a: jax.Array, *, pivot: bool = True, name: str) -> _Three:
    """Return the results of `lu_factor_ex`. On a TPU, errors refer to the operator as `name`."""
    if not pivot:
        raise NotImplementedError(
            "tpu: no lowering for aten::linalg_lu_factor_ex without pivoting. Use pivot=True"
        )
    least = min(a.shape[-2:])
    if not a.size:
        info = jnp.zeros(a.shape[:-2], jnp.int32)
        return a, jnp.zeros((*a.shape[:-2], least), jnp.int32), info
    packed, pivots, _ = refuse_on_tpu(
        jax.lax.linalg.lu, a, name=name, reason=NO_WIDE_LU, only_64_bits=True
    )
    zero = jnp.diagonal(packed, axis1=-2, axis2=-1) == 0
    info = jnp.where(zero.any(-1), jnp.argmax(zero, axis=-1) + 1, 0)
    return packed, pivots + 1, info.astype(jnp.int32)


@lowering("aten::linalg_lu")
def lu(a: jax.Array, *, pivot: bool = True) -> _Three:
    packed, pivots, _ = lu_factors(a, pivot=pivot, name="aten::linalg_lu")
    return lu_unpack(packed, pivots)


@lowering("aten::lu_unpack")
def lu_unpack(
    packed: jax.Array, pivots: jax.Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> _Three:
    m, n = packed.shape[-2:]
    least = min(m, n)
    p = lower = upper = jnp.zeros((0,), packed.dtype)
    if unpack_pivots:
        order = permutation(pivots, m)
        p = (order[..., None, :] == jnp.arange(m)[:, None]).astype(packed.dtype)
    if unpack_data:
        lower = jnp.tril(packed[..., :, :least], -1) + jnp.eye(m, least, dtype=packed.dtype)
        upper = jnp.triu(packed[..., :least, :])
    return p, lower, upper


@lowering("aten::_linalg_eigh")
def eigh(a: jax.Array, uplo: str = "L", compute_v: bool = True) -> _Pair:
    nothing = jnp.zeros((0,), a.dtype)
    if not a.size:
        return jnp.zeros(a.shape[:-1], jnp.finfo(a.dtype).dtype), a if compute_v else nothing
    uplo = uplo.upper()
    if compute_v:
        values, vectors = jnp.linalg.eigh(a, UPLO=uplo, symmetrize_input=False)
        return values, vectors
    return jnp.linalg.eigvalsh(a, UPLO=uplo, symmetrize_input=False), nothing


@lowering("aten::linalg_eig")
def eig(a: jax.Array) -> _Pair:
    if not a.size:
        wide = jnp.promote_types(a.dtype, jnp.complex64)
        return jnp.zeros(a.shape[:-1], wide), jnp.zeros(a.shape, wide)
    values, vectors = refuse_on_tpu(jnp.linalg.eig, a, name="aten::linalg_eig", reason=_NO_EIG)
    return values, vectors


@lowering("aten::_linalg_eigvals")
def eigvals(a: jax.Array) -> jax.Array:
    if not a.size:
        return jnp.zeros(a.shape[:-1], jnp.promote_types(a.dtype, jnp.complex64))
    name = "aten::_linalg_eigvals"
    values: jax.Array = refuse_on_tpu(jnp.linalg.eigvals, a, name=name, reason=_NO_EIG)
    return values


@lowering("aten::_linalg_svd")
def svd(
    a: jax.Array, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> _Three:
    m, n = a.shape[-2:]
    lead, nothing = a.shape[:-2], jnp.zeros((0,), a.dtype)
    if not a.size:
        values = jnp.zeros((*lead, min(m, n)), jnp.finfo(a.dtype).dtype)
        if not compute_uv:
            return nothing, values, nothing
        columns, rows = (m, n) if full_matrices else (min(m, n), min(m, n))
        u = jnp.broadcast_to(jnp.eye(m, columns, dtype=a.dtype), (*lead, m, columns))
        return u, values, jnp.broadcast_to(jnp.eye(rows, n, dtype=a.dtype), (*lead, rows, n))
    if not compute_uv:
        return nothing, jnp.linalg.svd(a, compute_uv=False), nothing
    return singular_vectors(a, full_matrices=full_matrices)


def singular_vectors(a: jax.Array, *, full_matrices: bool) -> _Three:
    """Return the singular value decomposition: u, the singular values, and the adjoint of v."""

    def decompose(a: jax.Array) -> _Three:
        u, values, vh = jnp.linalg.svd(a, full_matrices=full_matrices)
        return u, values, vh

    # With 64-bit indices, libtpu 0.0.42 aborts the process while it compiles JAX's SVD for a TPU.
    u, values, vh = choose(a, tpu=decompose, default=decompose, x64=has_64_bits(a))
    return u, values, vh


@lowering("aten::linalg_matrix_exp")
def matrix_exp(a: jax.Array) -> jax.Array:
    if not a.size:
        return a
    if has_64_bits(a):
        name = "aten::linalg_matrix_exp"
        return refuse_on_tpu(_exponential, a, name=name, reason=NO_WIDE_LU)

    def in_double(a: jax.Array) -> jax.Array:
        # Each squaring doubles the error, so compute the exponential of a float32 matrix in float64
        # and round once.
        return _exponential(a.astype(jnp.promote_types(a.dtype, jnp.float64))).astype(a.dtype)

    return choose(a, tpu=exponential_in_single, default=in_double, x64=False)


def exponential_in_single(a: jax.Array) -> jax.Array:
    """Compute a matrix exponential in float32 or complex64, with matmuls at the highest precision.

    The matrix is halved until its norm is at most 4, and the result is squared as often.
    """
    with jax.default_matmul_precision("highest"):
        return _exponential(a.astype(jnp.promote_types(a.dtype, jnp.float32))).astype(a.dtype)


# Up to this 1-norm, JAX's Padé approximants are accurate to the last bits. A key is the size of a
# real number, in bytes.
_SMALL_NORM = {4: 3.925724783138660, 8: 5.371920351148152}


def _exponential(a: jax.Array) -> jax.Array:
    """Scale a matrix, compute its exponential, and square it as often as the matrix was halved.

    jax.scipy.linalg.expm scales to twice this norm, and then has errors of up to 1e-7 in float64.
    """
    small = _SMALL_NORM[jnp.finfo(a.dtype).bits // 8]
    norm = jnp.abs(a).sum(axis=-2).max(axis=-1)
    has_scale = jnp.isfinite(norm) & (norm > 0)
    halvings = jnp.ceil(jnp.log2(jnp.where(has_scale, norm, 1) / small))
    halvings = jnp.where(has_scale, jnp.maximum(halvings, 0), 0)[..., None, None]
    scaled = a * jnp.exp2(-halvings).astype(norm.dtype)
    result = jax.scipy.linalg.expm(scaled, max_squarings=64)

    def square(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        step, x = state
        return step + 1, jnp.where(step < halvings, x @ x, x)

    most = halvings.max()
    return jax.lax.while_loop(lambda state: state[0] < most, square, (0 * most, result))[1]


@lowering("aten::_linalg_check_errors", host_shape=True)
def check_errors(info: jax.Array, api_name: str, *, is_matrix: bool) -> tuple[()]:
    """Raise torch's own error if `info` says that a factorization has failed."""
    host = torch.from_numpy(np.array(info))
    torch.ops.aten._linalg_check_errors(host, api_name, is_matrix=is_matrix)
    return ()


def adjoint(a: jax.Array) -> jax.Array:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def permutation(pivots: jax.Array, size: int) -> jax.Array:
    """Return the permutation that the pivots describe: row i comes from row permutation[i]."""
    if not pivots.size:
        return jnp.broadcast_to(jnp.arange(size), (*pivots.shape[:-1], size))
    return jax.lax.linalg.lu_pivots_to_permutation(pivots.astype(jnp.int32) - 1, size)
