# SPDX-License-Identifier: Apache-2.0

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from torch_google.tpu.lowerings import factorizations, linear_systems
from torch_google.tpu.lowerings.against_cpu import check, lowered, to_array, to_tensor
from torch_google.tpu.release import has_operator

aten = torch.ops.aten
DTYPES = [torch.float64, torch.float32, torch.complex128]
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


def definite(*shape: int, dtype: torch.dtype = torch.float64) -> Any:
    a = torch.randn(*shape, dtype=dtype)
    return a @ a.mH + torch.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_reads_one_triangle(dtype: torch.dtype, upper: Any) -> None:
    a = definite(2, 4, 4, dtype=dtype)
    other = torch.full((4, 4), 7.0, dtype=dtype)
    a = a.triu() + other.tril(-1) if upper else a.tril() + other.triu(1)
    check(aten.linalg_cholesky_ex.default, a, upper=upper, **CLOSE)
    if has_operator("aten::cholesky"):  # v2.15 has only linalg_cholesky_ex
        check(aten.cholesky.default, definite(0, 3, 3, dtype=dtype), upper)
    _, info = lowered(aten.linalg_cholesky_ex.default, -a, upper=upper)
    assert (info > 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (0, 3), (3, 0), (0, 2, 2)])
def test_qr(dtype: torch.dtype, shape: Any) -> None:
    a = torch.randn(shape, dtype=dtype)
    for mode in ("reduced", "complete", "r"):
        check(aten.linalg_qr.default, a, mode, **CLOSE)
    check(aten.geqrf.default, a, **CLOSE)
    packed, tau = aten.geqrf.default(a)
    if shape[-2] >= shape[-1]:
        check(aten.linalg_householder_product.default, packed, tau, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(dtype: torch.dtype, left: Any, transpose: Any) -> None:
    packed, tau = aten.geqrf.default(torch.randn(5, 3, dtype=dtype))
    other = torch.randn(*((5, 2) if left else (2, 5)), dtype=dtype)
    check(aten.ormqr.default, packed, tau, other, left, transpose, **CLOSE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5), (0, 0), (0, 3, 3)])
def test_lu(dtype: torch.dtype, shape: Any) -> None:
    a = torch.randn(shape, dtype=dtype)
    check(aten.linalg_lu_factor_ex.default, a, **CLOSE)
    check(aten.linalg_lu.default, a, **CLOSE)
    packed, pivots, _ = aten.linalg_lu_factor_ex.default(a)
    for data, order in ((True, False), (False, True)):
        check(aten.lu_unpack.default, packed, pivots, data, order)


def test_lu_says_where_it_is_singular() -> None:
    a = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    assert lowered(aten.linalg_lu_factor_ex.default, a)[2] == 3
    with pytest.raises(NotImplementedError, match="pivot=True"):
        lowered(aten.linalg_lu_factor_ex.default, a, pivot=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_symmetric_eigenvalues(dtype: torch.dtype, uplo: Any) -> None:
    a = definite(2, 4, 4, dtype=dtype)
    check(aten._linalg_eigh.default, a, uplo, False, **CLOSE)
    values, vectors = lowered(aten._linalg_eigh.default, a, uplo)
    again = vectors * values[..., None, :] @ jnp.conj(jnp.swapaxes(vectors, -1, -2))
    assert abs(again - a.numpy()).max() < 1e-3
    check(aten._linalg_eigh.default, a[:0], uplo, True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues(dtype: torch.dtype) -> None:
    a = torch.randn(2, 4, 4, dtype=dtype)
    values, vectors = lowered(aten.linalg_eig.default, a)
    assert abs(a.numpy() @ vectors - vectors * values[..., None, :]).max() < 1e-4
    expected = torch.linalg.eigvals(a).abs().sort().values
    (actual,) = lowered(aten._linalg_eigvals.default, a)
    assert abs(jnp.sort(abs(actual)) - expected.numpy()).max() < 1e-4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (3, 0), (0, 2, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_values(dtype: torch.dtype, shape: Any, full: Any) -> None:
    a = torch.randn(shape, dtype=dtype)
    check(aten._linalg_svd.default, a, full, False, **CLOSE)
    u, values, vh = lowered(aten._linalg_svd.default, a, full)
    expected = torch.linalg.svd(a, full_matrices=full)
    assert (u.shape, vh.shape) == (expected.U.shape, expected.Vh.shape)
    if a.numel():
        k = values.shape[-1]
        again = u[..., :k] * values[..., None, :] @ vh[..., :k, :]
        assert abs(again - a.numpy()).max() < 1e-4


def test_matrix_exponential_and_errors() -> None:
    check(aten.linalg_matrix_exp.default, torch.randn(2, 4, 4), **CLOSE)
    lowered(
        aten._linalg_check_errors.default, torch.zeros((), dtype=torch.int32), "x", is_matrix=True
    )
    info = torch.ones((), dtype=torch.int32)
    with pytest.raises(RuntimeError, match="linalg"):
        lowered(aten._linalg_check_errors.default, info, "linalg.inv", is_matrix=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_matrix_exponentials_of_all_norms(dtype: torch.dtype) -> None:
    rotation = torch.tensor([[0.0, 0, -2], [0, 0, 0], [2, 0, 0]], dtype=torch.float64)
    a = torch.stack([rotation * 1.2**i for i in range(-40, 24)]).to(dtype)
    check(aten.linalg_matrix_exp.default, a, rtol=1e-12, atol=1e-12)
    (found,) = lowered(aten.linalg_matrix_exp.default, torch.full((2, 2), torch.nan, dtype=dtype))
    assert found.shape == (2, 2)
    assert np.isnan(found).all()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("name", ["svd", "svd full", "pinv", "lstsq"])
def test_singular_vectors_have_no_64_bits_on_a_tpu(name: str, shape: Any) -> None:
    a = jnp.ones(shape, jnp.float32)
    functions: dict[str, Callable[[jax.Array], Any]] = {
        "svd": factorizations.svd,
        "svd full": lambda a: factorizations.svd(a, True),
        "pinv": linear_systems.pinv,
        "lstsq": lambda a: linear_systems.lstsq(a, a),
    }
    text = on_tpu(functions[name], a)
    # libtpu aborts the process for the same program with 64-bit indices.
    assert not re.search(r"while[^\n]*i64>", text)
    assert "xf32>" in text


def test_singular_vectors_of_float64_keep_64_bits_on_a_tpu() -> None:
    assert "xf64>" in on_tpu(lambda a: factorizations.svd(a)[0], jnp.ones((3, 3)))


def test_the_matrix_exponential_has_no_float64_on_a_tpu() -> None:
    for dtype in (jnp.float32, jnp.complex64, jnp.bfloat16):
        text = on_tpu(factorizations.matrix_exp, jnp.ones((2, 3, 3), dtype))
        assert "f64" not in text
        assert all("HIGHEST" in line for line in text.splitlines() if "dot_general" in line)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.01, 1, 10])
def test_the_matrix_exponential_of_a_tpu_has_small_errors(dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    a = (torch.randn(3, 5, 5, dtype=torch.float64) * scale).to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = torch.linalg.matrix_exp(a.to(wide))
    result = to_tensor(factorizations.exponential_in_single(to_array(a))).to(wide)
    error = (result - expected).abs().amax((-1, -2)) / expected.abs().amax((-1, -2))
    assert error.max() < 64 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", ["lu_factor_ex", "lu", "matrix_exp"])
def test_a_tpu_rejects_lu_decompositions_of_float64(name: str) -> None:
    message = f"a TPU has no aten::linalg_{name} of float64: .* Use float32. .*cpu_fallback"
    with pytest.raises(NotImplementedError, match=message):
        on_tpu(getattr(factorizations, name), jnp.ones((3, 3)))
    on_tpu(getattr(factorizations, name), jnp.ones((3, 3), jnp.float32))


@pytest.mark.parametrize("name", ["linalg_eig", "_linalg_eigvals"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.complex64])
def test_a_tpu_rejects_eigenvalues_of_general_matrices(name: str, dtype: Any) -> None:
    function = {"linalg_eig": factorizations.eig, "_linalg_eigvals": factorizations.eigvals}[name]
    message = f"a TPU has no aten::{name} of {jnp.dtype(dtype)}: .*cpu_fallback"
    with pytest.raises(NotImplementedError, match=message):
        on_tpu(function, jnp.ones((2, 3, 3), dtype))
    on_tpu(function, jnp.ones((0, 3, 3), dtype))


def on_tpu(function: Callable[..., Any], *arrays: jax.Array) -> str:
    return str(jax.jit(function).trace(*arrays).lower(lowering_platforms=("tpu",)).as_text())
