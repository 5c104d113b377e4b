# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings import pointwise_unary
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
TRICKY = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -7.25, 100.0, INF, -INF, NAN]


@pytest.mark.parametrize("name", sorted(pointwise_unary._FLOAT))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_float_functions(name: str, dtype: torch.dtype) -> None:
    values = torch.tensor(
        [v for v in TRICKY if dtype.is_floating_point or (v == v and abs(v) < INF)]
    )
    check(getattr(aten, name).default, values.to(dtype))


@pytest.mark.parametrize("name", sorted(pointwise_unary._FLOAT))
def test_float_functions_of_bool_and_of_nothing(name: str) -> None:
    check(getattr(aten, name).default, torch.tensor([True, False]))
    check(getattr(aten, name).default, torch.tensor(0.25))
    check(getattr(aten, name).default, torch.zeros(0, 3))


COMPLEX = sorted(set(pointwise_unary._FLOAT) - {"deg2rad", "rad2deg"})


@pytest.mark.parametrize("name", COMPLEX)
def test_float_functions_of_complex(name: str) -> None:
    values = torch.tensor([0.3 + 0.4j, -0.3 + 2j, 1.5 - 0.5j, -2 - 3j], dtype=torch.complex128)
    check(getattr(aten, name).default, values)
    check(getattr(aten, name).default, values.to(torch.complex64))


EVERYWHERE = [aten.sign, aten.sgn, aten.isnan, aten.isinf, aten.isposinf, aten.signbit]
ROUNDING = [aten.ceil, aten.floor, aten.trunc, aten.round]


@pytest.mark.parametrize("op", EVERYWHERE, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool])
def test_of_every_dtype(op: torch._ops.OpOverloadPacket, dtype: torch.dtype) -> None:
    values = torch.tensor(TRICKY) if dtype.is_floating_point else torch.tensor([0, 1, 3, -128])
    check(op.default, values.to(dtype))


@pytest.mark.parametrize("op", [*ROUNDING, aten.abs, aten.neg, aten.angle, aten.relu], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_of_numbers(op: torch._ops.OpOverloadPacket, dtype: torch.dtype) -> None:
    values = torch.tensor(TRICKY) if dtype.is_floating_point else torch.tensor([0, 1, 3, -128])
    check(op.default, values.to(dtype))


def test_signs_of_zero_are_kept() -> None:
    for op in (aten.round, aten.trunc, aten.ceil, aten.neg, aten.sqrt, aten.sin, aten.relu):
        values = torch.tensor([-0.0, 0.0, -0.4, 0.4])
        want = torch.signbit(op(values))
        check(aten.signbit.default, op(values))
        assert want.shape == (4,)


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round_to_decimals(decimals: int) -> None:
    values = torch.tensor([1234.5678, -0.05, 2.5, 15.0, 25.0])
    check(aten.round.decimals, values, decimals=decimals)


def test_frexp() -> None:
    values = [0.0, -0.0, 1.0, -3.5, 1e-37, 1e30, INF, NAN]
    check(aten.frexp.Tensor, torch.tensor(values))
    check(aten.frexp.Tensor, torch.tensor(values).to(torch.bfloat16))


def test_nan_to_num() -> None:
    values = torch.tensor(TRICKY)
    check(aten.nan_to_num.default, values)
    check(aten.nan_to_num.default, values, 1.0, 2.0, -3.0)
    check(aten.nan_to_num.default, values.to(torch.bfloat16), None, 7.0)
    check(aten.nan_to_num.default, torch.tensor([1, 2]))


def test_logit() -> None:
    values = torch.tensor([0.0, 0.2, 0.5, 1.0, 1.5, -1.0])
    check(aten.logit.default, values)
    check(aten.logit.default, values, 1e-3)


def test_complex_parts() -> None:
    values = torch.tensor([0j, 3 + 4j, -1 - 1e-3j])
    for op in (aten.abs, aten.angle, aten.sgn, aten._conj_physical):
        check(op.default, values)


@pytest.mark.parametrize("op", [aten.sigmoid_backward, aten.tanh_backward], ids=str)
def test_backward(op: torch._ops.OpOverloadPacket) -> None:
    grad, out = torch.randn(4, 3), torch.rand(4, 3)
    check(op.default, grad, out)
    check(op.default, grad.to(torch.bfloat16), out.to(torch.bfloat16))
