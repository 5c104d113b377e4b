# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax.numpy as jnp
import pytest
import torch

import torch_google.tpu.lowerings.matmul as under_test
from torch_google.tpu.lowerings.against_cpu import check, lowered

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64]


def make(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(
            dtype
        )
    return torch.randint(-5, 6, shape).to(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int8, torch.uint8])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (0, 4, 5), (3, 0, 5), (1, 1, 1)])
def test_products_in_every_dtype_and_with_empty_dims(
    dtype: torch.dtype, m: Any, k: Any, n: Any
) -> None:
    check(aten.mm.default, make(m, k, dtype=dtype), make(k, n, dtype=dtype))
    check(aten.bmm.default, make(2, m, k, dtype=dtype), make(2, k, n, dtype=dtype))
    check(aten.mv.default, make(m, k, dtype=dtype), make(k, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int32])
def test_dot_conjugates_only_in_vdot(dtype: torch.dtype) -> None:
    a, b = make(7, dtype=dtype), make(7, dtype=dtype)
    check(aten.dot.default, a, b)
    check(aten.vdot.default, a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (2, 3), (0, 1), (1, 0)])
def test_fused_additions_broadcast_and_scale(dtype: torch.dtype, beta: Any, alpha: Any) -> None:
    scale = {"beta": beta, "alpha": alpha}
    a, b = make(3, 4, dtype=dtype), make(4, 5, dtype=dtype)
    for shape in [(3, 5), (5,), (1, 5), ()]:
        check(aten.addmm.default, make(*shape, dtype=dtype), a, b, **scale)
    check(aten.addmv.default, make(3, dtype=dtype), a, make(4, dtype=dtype), **scale)
    check(
        aten.addr.default,
        make(3, 5, dtype=dtype),
        make(3, dtype=dtype),
        make(5, dtype=dtype),
        **scale,
    )
    batch1, batch2 = make(2, 3, 4, dtype=dtype), make(2, 4, 5, dtype=dtype)
    for shape in [(2, 3, 5), (3, 5), (5,)]:
        check(aten.baddbmm.default, make(*shape, dtype=dtype), batch1, batch2, **scale)
    check(aten.addbmm.default, make(3, 5, dtype=dtype), batch1, batch2, **scale)


def test_a_beta_of_zero_hides_nan() -> None:
    nan = torch.full((3, 5), float("nan"))
    check(aten.addmm.default, nan, make(3, 4), make(4, 5), beta=0)


def test_a_traced_beta_of_zero_hides_nan_too() -> None:
    nan = jnp.full((3, 5), jnp.nan, jnp.float32)
    ones = jnp.ones((3, 4), jnp.float32), jnp.ones((4, 5), jnp.float32)
    out = under_test.add_product(nan, *ones, beta=jnp.float64(0), alpha=jnp.float64(1))
    assert out.dtype == jnp.float32
    assert (out == 4).all()


def test_bool_products_are_any_of_all() -> None:
    a, b = torch.tensor([[True, False], [False, False]]), torch.ones(2, 2, dtype=torch.bool)
    (out,) = lowered(aten.mm.default, a, b)
    assert out.astype(bool).tolist() == [[True, True], [False, False]]


def test_int_mm_and_activation_and_trilinear() -> None:
    a, b = make(17, 8, dtype=torch.int8), make(8, 16, dtype=torch.int8)
    check(aten._int_mm.default, a, b)
    for gelu in (False, True):
        check(aten._addmm_activation.default, make(5), make(3, 4), make(4, 5), use_gelu=gelu)
    check(
        aten._trilinear.default, make(2, 4), make(3, 4, 5), make(2, 5), [1, 3], [0], [1, 2], [2, 3]
    )


def test_numbers_lose_their_fraction_for_integers() -> None:
    c, a, b = make(3, dtype=torch.int64), make(3, 4, dtype=torch.int64), make(4, dtype=torch.int64)
    check(aten.addmv.default, c, a, b, beta=0.2, alpha=1.6)


def test_products_of_two_dtypes_are_refused() -> None:
    a, b = jnp.ones((2, 2), jnp.float32), jnp.ones((2, 2), jnp.float64)
    with pytest.raises(RuntimeError, match="the same dtype, but got: float32 != float64"):
        under_test.matmul(a, b)
    with pytest.raises(RuntimeError, match="the same dtype, but got: float32 != float64"):
        under_test.add_product(a, a, b)
