# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings import pointwise_binary  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered, to_tensor
from torch_google.tpu.release import V2_6

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 0.1, -0.3, 1e30, INF, -INF, NAN]
INTS = [0, 1, -1, 2, -2, 3, 7, -7, 100, -128, 127]
DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.uint8, torch.bool]


def grid(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.tensor(FLOATS if dtype.is_floating_point else INTS).to(dtype)
    return values.reshape(-1, 1), values.reshape(1, -1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_and_products(dtype: torch.dtype) -> None:
    x, y = grid(dtype)
    check(aten.add.Tensor, x, y)
    check(aten.mul.Tensor, x, y)
    check(aten.div.Tensor, x, y)
    if dtype != torch.bool:
        check(aten.sub.Tensor, x, y)
        check(aten.add.Tensor, x, y, alpha=4)
        check(aten.rsub.Scalar, x, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_a_bool_is_a_number_in_a_product(dtype: torch.dtype) -> None:
    # In torch, False * nan is nan, and False * -1.0 is -0.0.
    mask = torch.tensor([True, False]).reshape(-1, 1)
    values = torch.tensor(FLOATS).to(dtype)
    check(aten.mul.Tensor, values, mask)
    check(aten.mul.Tensor, mask, values)
    check(aten.mul.Scalar, mask, NAN)
    if not dtype.is_complex:
        check(aten.div.Tensor, mask, values)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", ["floor", "trunc", None])
def test_rounded_quotients(dtype: torch.dtype, mode: str | None) -> None:
    if dtype == torch.bool:
        pytest.skip("torch refuses a rounded quotient of two bools")
    x, y = grid(dtype)
    if not dtype.is_floating_point:
        y = torch.where(y == 0, 5, y)
    check(aten.div.Tensor_mode, x, y, rounding_mode=mode)
    check(aten.div.Scalar_mode, x, 3, rounding_mode=mode)
    check(aten.div.Scalar_mode, x, -2.5, rounding_mode=mode)


@pytest.mark.parametrize("dtype", DTYPES[:-1], ids=str)
@pytest.mark.parametrize("op", [aten.fmod, aten.remainder], ids=str)
def test_remainders(op: torch._ops.OpOverloadPacket, dtype: torch.dtype) -> None:
    x, y = grid(dtype)
    if not dtype.is_floating_point:
        y = torch.where(y == 0, 5, y)
    check(op.Tensor, x, y)
    check(op.Scalar, x, -3)
    check(op.Scalar, x, 2.5)


def test_the_quotient_that_decompositions_end_in() -> None:
    for dtype in (torch.float32, torch.complex64, torch.int64):
        x, y = torch.tensor([7, -7, 1]).to(dtype), torch.tensor([2, 2, -3]).to(dtype)
        check(torch.ops.prims.div.default, x, y)
        check(torch.ops.prims.div.default, x, 2)


def test_signs_of_quotients_of_zero() -> None:
    x, y = torch.tensor([0.0, -0.0, 1.0, -1.0]), torch.tensor([[3.0], [-3.0], [INF], [-INF]])
    for mode in ("floor", "trunc"):
        want = torch.signbit(aten.div.Tensor_mode(x, y, rounding_mode=mode))
        got = torch.signbit(to_tensor(lowered(aten.div.Tensor_mode, x, y, rounding_mode=mode)[0]))
        assert torch.equal(want, got)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8], ids=str)
def test_powers_of_integers_wrap(dtype: torch.dtype) -> None:
    x, y = grid(dtype)
    check(aten.pow.Tensor_Tensor, x, y)
    check(aten.pow.Tensor_Scalar, x, 3)
    check(aten.pow.Tensor_Scalar, x, 2.5)
    check(aten.pow.Scalar, 3, x)
    check(aten.pow.Scalar, -1.5, x)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.7, -3])
def test_powers_of_floats(exponent: float) -> None:
    check(aten.pow.Tensor_Scalar, torch.tensor(FLOATS), exponent)
    check(aten.pow.Tensor_Scalar, torch.tensor(FLOATS).to(torch.bfloat16), exponent)
    check(aten.pow.Tensor_Tensor, torch.tensor(FLOATS), torch.tensor(float(exponent)))


def test_powers_of_bools_and_complex() -> None:
    check(aten.pow.Tensor_Scalar, torch.tensor([True, False]), 2)
    values = torch.tensor([1 + 2j, -0.5j, 3 + 0j], dtype=torch.complex128)
    check(aten.pow.Tensor_Scalar, values, 2)
    check(aten.pow.Tensor_Scalar, values, 0.3 - 1j)
    check(aten.pow.Scalar, 2, values)


@pytest.mark.parametrize(
    "op",
    [aten.atan2, aten.maximum, aten.minimum, aten.fmax, aten.fmin, aten.heaviside],
    ids=str,
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairs_of_one_dtype(op: torch._ops.OpOverloadPacket, dtype: torch.dtype) -> None:
    x, y = grid(dtype)
    check(op.default, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_pairs_of_floats(dtype: torch.dtype) -> None:
    x, y = grid(dtype)
    for op in (aten.hypot, aten.nextafter, aten.logaddexp, aten.logaddexp2):
        check(op.default, x, y)
    for overload in (aten.copysign.Tensor, aten.xlogy.Tensor, aten.special_xlog1py.default):
        check(overload, x, y)
    check(aten.copysign.Scalar, x, -0.0)
    check(aten.xlogy.Scalar_Self, 2, x)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8], ids=str)
def test_divisors(dtype: torch.dtype) -> None:
    values = torch.tensor([0, 1, 2, 6, 12, 35, 100], dtype=dtype)
    x, y = values.reshape(-1, 1), values.reshape(1, -1)
    if dtype.is_signed and not (V2_6 and dtype == torch.int64):  # v2.6 gets other signs with it
        smallest = torch.tensor([torch.iinfo(dtype).min])
        values = torch.cat([values, smallest.to(dtype)])
        x, y = -values.reshape(-1, 1), values.reshape(1, -1)
    check(aten.gcd.default, x, y)
    check(aten.lcm.default, x, y)


def test_logarithm_of_a_complex_sum() -> None:
    x, y = torch.tensor([1 + 3j, -2 - 3j, 0j]), torch.tensor([0.5 + 2.5j, 4 - 3j, 1j])
    check(aten.logaddexp.default, x, y)
    check(aten.logaddexp.default, y, x)


def test_ldexp_is_exact() -> None:
    x = torch.tensor([0.75, -3.0, 1.0])
    check(aten.ldexp.Tensor, x, torch.tensor([3, -20, 127]), rtol=0, atol=0)
    check(aten.ldexp.Tensor, x, torch.tensor([0.5, 2.0, -1.0]))


MIXED = [
    (torch.ones(2, dtype=torch.int32), 1.5),
    (torch.ones(2, dtype=torch.float16), 3),
    (torch.ones(2, dtype=torch.float16), torch.tensor(2.0, dtype=torch.float64)),
    (torch.ones(2, dtype=torch.int8), torch.tensor(300, dtype=torch.int64)),
    (torch.ones(2, dtype=torch.bool), 2),
    (torch.ones(2, dtype=torch.float64), 1j),
    (torch.ones(2, dtype=torch.int64), torch.tensor(0.1, dtype=torch.float64)),
    (torch.tensor(3), torch.ones(2, dtype=torch.uint8)),
]


@pytest.mark.parametrize(("x", "y"), MIXED)
def test_mixed_dtypes(x: torch.Tensor, y: object) -> None:
    for op in (aten.add, aten.mul):
        check(op.Tensor if isinstance(y, torch.Tensor) else op.Scalar, x, y)


def test_lerp_and_addc() -> None:
    x, y, z = torch.randn(3, 4), torch.randn(3, 4), torch.rand(4) + 0.1
    check(aten.lerp.Scalar, x, y, 0.3)
    check(aten.lerp.Scalar, x, y, 0.8)
    check(aten.lerp.Tensor, x, y, z)
    check(aten.addcmul.default, x, y, z, value=2)
    check(aten.addcdiv.default, x, y, z, value=-0.5)
    half = [t.to(torch.bfloat16) for t in (x, y, z)]
    check(aten.addcmul.default, *half, value=0.1)
    ints = [torch.tensor([1, 2]), torch.tensor([3, 4]), torch.tensor([5, -6])]
    check(aten.addcmul.default, *ints, value=2)


@pytest.mark.parametrize("p", [0, 1, 2, 3.5, INF, -INF])
def test_dist(p: float) -> None:
    check(aten.dist.default, torch.randn(3, 4), torch.randn(4), p)


def test_empty() -> None:
    x = torch.zeros(0, 3)
    for op in (aten.add, aten.mul, aten.div, aten.remainder):
        check(op.Tensor, x, torch.ones(3))
