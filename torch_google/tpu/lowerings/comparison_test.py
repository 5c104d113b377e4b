# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings import comparison  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
FLOATS = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, NAN])
INTS = torch.tensor([0, 1, -1, 2, 7, 100, -128, 127])
COMPARISONS = [aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge]


@pytest.mark.parametrize("op", COMPARISONS, ids=str)
def test_comparisons(op: torch._ops.OpOverloadPacket) -> None:
    for x in (FLOATS, FLOATS.to(torch.bfloat16), INTS, INTS.to(torch.uint8), INTS.bool()):
        check(op.Tensor, x.reshape(-1, 1), x)
        check(op.Scalar, x, 1)
        check(op.Scalar, x, 1.5)
    check(op.Tensor, INTS.to(torch.int8), FLOATS)
    check(op.Tensor, torch.tensor([2**53 + 1]), torch.tensor([2.0**53], dtype=torch.float64))
    check(op.Tensor, torch.tensor([0.1], dtype=torch.float16), torch.tensor(0.1))


@pytest.mark.parametrize("op", [aten.logical_and, aten.logical_or, aten.logical_xor], ids=str)
def test_logic(op: torch._ops.OpOverloadPacket) -> None:
    check(op.default, FLOATS.reshape(-1, 1), INTS)
    check(op.default, torch.tensor([0j, 1j]), torch.tensor([True, True]))


@pytest.mark.parametrize("op", [aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor], ids=str)
def test_bits(op: torch._ops.OpOverloadPacket) -> None:
    for dtype in (torch.int8, torch.uint8, torch.int64, torch.bool):
        x = INTS.to(dtype)
        check(op.Tensor, x.reshape(-1, 1), x)
        check(op.Scalar, x, 1)
        check(op.Scalar_Tensor, 6, x)


@pytest.mark.parametrize("op", [aten.bitwise_left_shift, aten.bitwise_right_shift], ids=str)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_shifts(op: torch._ops.OpOverloadPacket, dtype: torch.dtype) -> None:
    x, by = INTS.to(dtype), torch.tensor([0, 1, 3, 6], dtype=dtype)
    check(op.Tensor, x.reshape(-1, 1), by)
    check(op.Tensor_Scalar, x, 2)
    check(op.Tensor_Scalar, x, 100)


def test_where() -> None:
    mask = torch.tensor([[True], [False]])
    check(aten.where.self, mask, FLOATS, INTS.to(torch.float32))
    check(aten.where.self, mask, INTS.to(torch.int8), torch.tensor(2.5))
    check(aten.where.self, mask[0], torch.zeros(0), torch.ones(1))


def test_clamp() -> None:
    check(aten.clamp.default, FLOATS, -0.5, 1.5)
    check(aten.clamp.default, FLOATS, 2.0, 1.0)
    check(aten.clamp.default, FLOATS, None, 1)
    check(aten.clamp.default, INTS, 0.5)
    check(aten.clamp.Tensor, FLOATS, torch.tensor([[0.0], [NAN]]), torch.tensor(1.0))
    check(aten.clamp_min.default, INTS.to(torch.int8), 3)
    check(aten.clamp_max.Tensor, FLOATS, torch.tensor(0.0))


def test_isin_and_masks() -> None:
    check(aten.isin.Tensor_Tensor, INTS, torch.tensor([1, 7, 9]))
    check(aten.isin.Tensor_Tensor, INTS, torch.tensor([1, 7, 9]), invert=True)
    check(aten.isin.Tensor_Scalar, FLOATS, 1)
    some, many = torch.randint(0, 9000, (3, 500)), torch.randint(0, 9000, (50, 60))
    check(aten.isin.Tensor_Tensor, some, many)
    check(aten.isin.Tensor_Tensor, some, many, invert=True)
    special = torch.tensor([NAN, -0.0, 0.0, INF, -INF, 9001.0])
    for others in (many.double(), torch.cat([many.double().flatten(), special])):
        check(aten.isin.Tensor_Tensor, torch.cat([special, some[0].float()]), others.float())
    check(aten.masked_fill.Scalar, FLOATS, FLOATS > 0, -5)
    check(aten.masked_fill.Tensor, INTS, torch.tensor([[True]]), torch.tensor(3))
    check(aten.fill.Scalar, INTS.to(torch.uint8), 7)
