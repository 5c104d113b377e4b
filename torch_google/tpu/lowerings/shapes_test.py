# SPDX-License-Identifier: Apache-2.0

import math

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
X = torch.arange(24.0).reshape(2, 3, 4)
SCALAR = torch.tensor(2.5)


def test_views() -> None:
    check(aten.view.default, X, [4, -1])
    check(aten.expand.default, X, [5, -1, 3, 4])
    check(aten.permute.default, X, [2, 0, -2])
    check(aten.transpose.int, X, 0, -1)
    check(aten.t.default, X[0])
    check(aten.unsqueeze.default, X, -1)
    check(aten.unsqueeze.default, SCALAR, 0)
    check(aten.squeeze.dims, X[:1], [0, 1])
    check(aten.squeeze.dim, SCALAR, 0)
    check(aten.select.int, X, 1, -1)
    check(aten.unbind.int, X, 1)
    check(aten.alias.default, X)


@pytest.mark.parametrize(
    "item", [(0, None, None, 1), (1, 1, 100, 1), (2, -3, -1, 2), (1, 5, 2, 1), (0, -100, 1, 1)]
)
def test_slices(item: tuple[int, int | None, int | None, int]) -> None:
    check(aten.slice.Tensor, X, *item)
    piece = aten.slice.Tensor(X, *item)
    check(aten.slice_scatter.default, X, torch.full_like(piece, -1), *item)
    start, end = item[1] or 0, 100 if item[2] is None else item[2]
    check(aten.slice_backward.default, piece, [2, 3, 4], item[0], start, end, item[3])


def test_select_scatter() -> None:
    check(aten.select_scatter.default, X, -X[:, 1], 1, -2)
    check(aten.select_backward.default, X[:, 1], [2, 3, 4], 1, 2)


def test_pieces_and_joins() -> None:
    check(aten.split_with_sizes.default, X, [1, 0, 2], 1)
    check(aten.split.Tensor, X, 3, 2)
    check(aten.split.Tensor, torch.zeros(0, 2), 3)
    check(aten.cat.default, [X, X[:1]], 0)
    check(aten.cat.default, [X, torch.zeros(0), X.int()], -1)
    check(aten.cat.default, [torch.tensor([1]), torch.tensor([0.5])])
    check(aten.stack.default, [X, X + 1], -1)
    check(aten.stack.default, [SCALAR, SCALAR])
    check(aten.repeat.default, X, [2, 1, 3, 1])
    check(aten.repeat.default, X[0], [0, 1])


def test_order_of_elements() -> None:
    check(aten.flip.default, X, [0, -1])
    check(aten.flip.default, SCALAR, [])
    check(aten.roll.default, X, [1, -2], [0, 2])
    check(aten.roll.default, X, [5])
    check(aten.tril.default, X, -1)
    check(aten.triu.default, X, 1)
    check(aten.triu.default, X > 3, 1)


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diagonals(offset: int) -> None:
    check(aten.diagonal.default, X, offset, 1, 2)
    check(aten.diagonal.default, X, offset, -1, 0)
    check(aten.diag_embed.default, X, offset, 0, 2)
    piece = aten.diagonal(X, offset, 2, 1)
    check(aten.diagonal_scatter.default, X, -piece, offset, 2, 1)
    check(aten.diagonal_backward.default, piece, [2, 3, 4], offset, 2, 1)


def test_windows() -> None:
    check(aten.unfold.default, X, 2, 3, 1)
    check(aten.unfold.default, X, 0, 1, 1)
    check(aten.unfold.default, SCALAR, 0, 1, 1)
    check(aten.unfold_backward.default, torch.randn(2, 3, 2, 3), [2, 3, 5], 2, 3, 2)
    check(aten.as_strided.default, X, [3, 2], [2, 7], 1)
    check(aten.as_strided.default, X, [], [], 4)
    check(aten.as_strided_scatter.default, X, torch.ones(3, 2), [3, 2], [2, 7], 1)
    check(aten.resize.default, X, [2, 3])


def test_bits() -> None:
    check(aten.view.dtype, X, torch.int32)
    check(aten.view.dtype, X, torch.float64)
    check(aten.view.dtype, X, torch.uint8)
    check(aten.view.dtype, X, torch.complex64)
    check(aten.view.dtype, X > 2, torch.uint8)
    check(aten.view_as_real.default, torch.complex(X, -X))
    check(aten.view_as_complex.default, X[..., :2])
    check(aten.view.dtype, torch.complex(X, -X), torch.float32)


CASTS = [torch.uint8, torch.int8, torch.int64, torch.bool, torch.float16, torch.complex64]


@pytest.mark.parametrize("dtype", CASTS, ids=str)
def test_casts(dtype: torch.dtype) -> None:
    check(aten._to_copy.default, torch.tensor([-1.5, 0.0, 300.7, -129.0]), dtype=dtype)
    check(aten._to_copy.default, torch.tensor([-1, 0, 300, 2**40 + 5]), dtype=dtype)
    check(aten._to_copy.default, torch.tensor([True, False]), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize(
    "source",
    [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.float8_e5m2],
    ids=str,
)
def test_casts_to_float8(dtype: torch.dtype, source: torch.dtype) -> None:
    values = [3.3, 448.0, 449.0, 463.0, 464.0, 470.0, -1e4, 5e4]
    if source.is_floating_point:
        values += [math.inf, -math.inf, math.nan]
    x = torch.tensor(values).to(source)
    expected = x.to(dtype)
    copied = torch.empty_like(expected, device="tpu").copy_(x.to("tpu"))
    for actual in (x.to("tpu").to(dtype), copied):
        assert (
            actual.cpu().float().nan_to_num(-1).tolist() == expected.float().nan_to_num(-1).tolist()
        )


@pytest.mark.parametrize("name", ["reflection", "replication"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding(name: str, rank: int) -> None:
    op = getattr(aten, f"{name}_pad{rank}d").default
    back = getattr(aten, f"{name}_pad{rank}d_backward").default
    x = torch.randn(2, 2, *[4, 5, 3][:rank])
    pad = [2, 1, 1, 2, 0, 1][: 2 * rank]
    check(op, x, pad)
    check(back, torch.randn_like(op(x, pad)), x, pad)
    check(op, x[0], pad)


def test_constant_padding() -> None:
    check(aten.constant_pad_nd.default, X, [1, -2, 0, 3], 5)
    check(aten.constant_pad_nd.default, X.int(), [1, 1])
    check(aten.constant_pad_nd.default, X > 3, [1, 1], 1)
    check(aten.constant_pad_nd.default, torch.zeros(0, 2), [0, 0, 1, 1], 2.0)
