# SPDX-License-Identifier: Apache-2.0

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

import torch_google.tpu.lowerings.meta_kernels  # noqa: F401 (registers)
from torch_google.tpu.lowerings import ldl_factorization, linear_systems
from torch_google.tpu.lowerings.against_cpu import check, lowered, to_tensor

aten = torch.ops.aten
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}
BOTH = [True, False]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("upper", "left", "unit"), list(itertools.product(BOTH, BOTH, BOTH)))
def test_triangular(dtype: torch.dtype, upper: Any, left: Any, unit: Any) -> None:
    a = torch.randn(4, 4, dtype=dtype) + 4 * torch.eye(4)
    b = torch.randn(2, *((4, 3) if left else (3, 4)), dtype=dtype)
    options: dict[str, Any] = {"upper": upper, "left": left, "unitriangular": unit}
    triangle = a.triu() if upper else a.tril()
    check(aten.linalg_solve_triangular.default, triangle, b, **options, **CLOSE)
    if left:
        for transpose in BOTH:
            args = (b, a.expand(2, 4, 4).contiguous(), upper, transpose, unit)
            check(aten.triangular_solve.default, *args, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("upper", BOTH)
def test_cholesky_solutions(dtype: torch.dtype, upper: Any) -> None:
    a = torch.randn(2, 4, 4, dtype=dtype)
    factor = torch.linalg.cholesky(a @ a.mH + torch.eye(4), upper=upper)
    check(aten.cholesky_solve.default, torch.randn(2, 4, 3, dtype=dtype), factor, upper)
    check(aten.cholesky_inverse.default, factor, upper)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(("left", "adjoint"), list(itertools.product(BOTH, BOTH)))
def test_lu_solve(dtype: torch.dtype, left: Any, adjoint: Any) -> None:
    packed, pivots, _ = aten.linalg_lu_factor_ex.default(torch.randn(2, 4, 4, dtype=dtype))
    b = torch.randn(3, 1, *((4, 5) if left else (5, 4)), dtype=dtype)
    check(aten.linalg_lu_solve.default, packed, pivots, b, left=left, adjoint=adjoint)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_solve_inverse_and_determinants(dtype: torch.dtype) -> None:
    a = torch.randn(2, 4, 4, dtype=dtype) + 2 * torch.eye(4)
    for b in (torch.randn(2, 4, 3, dtype=dtype), torch.randn(2, 4, dtype=dtype)):
        check(aten._linalg_solve_ex.default, a, b, only=1)
    check(aten._linalg_solve_ex.default, a, torch.randn(2, 3, 4, dtype=dtype), left=False, only=1)
    for empty_or_not in (a, a[:0], torch.zeros(0, 0, dtype=dtype)):
        check(aten.linalg_inv_ex.default, empty_or_not)
        check(aten._linalg_slogdet.default, empty_or_not)
        check(aten._linalg_det.default, empty_or_not)


def test_a_singular_matrix() -> None:
    a = torch.tensor([[1.0, 2], [2, 4]])
    check(aten._linalg_det.default, a, only=1)
    check(aten._linalg_slogdet.default, a, only=2)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_least_squares(driver: Any, shape: Any) -> None:
    a = torch.randn(shape).double()
    b = torch.randn(*shape[:-1], 2).double()
    only = 2 if driver == "gels" else None
    check(aten.linalg_lstsq.default, a, b, driver=driver, only=only)
    if len(shape) == 3:
        check(aten.linalg_lstsq.default, a, b[..., 0].contiguous(), driver=driver, only=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5), (2, 4, 4), (0, 3)])
def test_pseudo_inverse(dtype: torch.dtype, shape: Any) -> None:
    a = torch.randn(shape, dtype=dtype)
    op = aten.linalg_pinv.atol_rtol_tensor
    check(op, a)
    half, tenth = torch.tensor(0.5).double(), torch.tensor(0.1).double()
    for cut in ({"atol": half, "rtol": tenth}, {"atol": half}, {"rtol": tenth}):
        (actual,) = lowered(op, a, **cut)
        torch.testing.assert_close(to_tensor(actual), op(a, **cut))
    if shape[-1] == shape[-2]:
        check(op, a @ a.mH, hermitian=True)


def test_torch_knows_the_shapes_of_least_squares() -> None:
    for driver in ("gels", "gelsy", "gelsd"):
        a, b = torch.randn(2, 5, 3), torch.randn(2, 5, 2)
        expected = torch.linalg.lstsq(a, b, driver=driver)
        meta = torch.linalg.lstsq(a.to("meta"), b.to("meta"), driver=driver)
        assert [(t.shape, t.dtype) for t in meta] == [(t.shape, t.dtype) for t in expected]
    assert [t.shape for t in torch.geqrf(a.to("meta"))] == [t.shape for t in torch.geqrf(a)]


LU_BASED: dict[str, Callable[..., Any]] = {
    "aten::_linalg_solve_ex": lambda a: linear_systems.solve_ex(a, a),
    "aten::linalg_inv_ex": linear_systems.inv_ex,
    "aten::_linalg_det": linear_systems.det,
    "aten::_linalg_slogdet": linear_systems.slogdet,
    "aten::linalg_ldl_solve": lambda a: ldl_factorization.ldl_solve(a, jnp.ones(3, jnp.int32), a),
}


@pytest.mark.parametrize("name", LU_BASED)
def test_a_tpu_rejects_lu_decompositions_of_float64(name: str) -> None:
    def lower(dtype: Any) -> None:
        traced = jax.jit(LU_BASED[name]).trace(jnp.ones((3, 3), dtype))
        traced.lower(lowering_platforms=("tpu",))

    lower(jnp.float32)
    with pytest.raises(
        NotImplementedError, match=f"a TPU has no {name} of float64: .*cpu_fallback"
    ):
        lower(jnp.float64)
