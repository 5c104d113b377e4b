# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

import torch_google.tpu.lowerings.ldl_factorization  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered, to_tensor

aten = torch.ops.aten


def symmetric(*shape: int, dtype: torch.dtype, hermitian: bool, hollow: bool) -> torch.Tensor:
    torch.manual_seed(0)
    a = torch.randn(*shape, shape[-1], dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    # With a zero diagonal, every pivot block is 2x2.
    return a - torch.diag_embed(torch.diagonal(a, dim1=-2, dim2=-1)) if hollow else a


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("hollow", [False, True])
@pytest.mark.parametrize("hermitian", [False, True])
def test_as_lapack(dtype: torch.dtype, hollow: bool, hermitian: bool) -> None:
    a = symmetric(3, 6, dtype=dtype, hermitian=hermitian, hollow=hollow)
    check(aten.linalg_ldl_factor_ex.default, a, hermitian=hermitian)
    packed, pivots, _ = aten.linalg_ldl_factor_ex.default(a, hermitian=hermitian)
    b = torch.randn(3, 6, 2, dtype=dtype)
    check(aten.linalg_ldl_solve.default, packed, pivots, b, hermitian=hermitian)


def test_singular_and_empty() -> None:
    zeros = torch.zeros(3, 3)
    assert to_tensor(lowered(aten.linalg_ldl_factor_ex.default, zeros)[2]) == 1
    nothing = torch.zeros(2, 0, 0)
    check(aten.linalg_ldl_factor_ex.default, nothing)
    pivots = torch.zeros(2, 0, dtype=torch.int32)
    check(aten.linalg_ldl_solve.default, nothing, pivots, torch.zeros(2, 0, 3))
