# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check, lowered

aten = torch.ops.aten
X = torch.arange(24.0).reshape(2, 3, 4)
INTS = X.long()
NAN = float("nan")
ROWS = torch.tensor([1, -1, 0])
SCALAR = torch.tensor(2.5)


def test_index() -> None:
    check(aten.index.Tensor, X, [ROWS])
    check(aten.index.Tensor, X, [None, ROWS, torch.tensor([[0], [3]])])
    check(aten.index.Tensor, X, [ROWS, None, ROWS])
    check(aten.index.Tensor, X, [torch.tensor(1), None, torch.tensor([0, 2])])
    check(aten.index.Tensor, X, [None, torch.zeros(0, dtype=torch.int64)])
    check(aten.index.Tensor, X, [X[..., 0] > 3])
    check(aten.index.Tensor, X, [None, torch.tensor([True, False, True]), torch.tensor([0, 1])])


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate: bool) -> None:
    check(aten.index_put.default, X, [torch.tensor([1])], SCALAR, accumulate)
    check(aten.index_put.default, X, [None, torch.tensor([0, 2])], torch.ones(2, 4), accumulate)
    pair = [torch.tensor([0, 1]), None, torch.tensor([3, -4])]
    check(aten.index_put.default, INTS, pair, torch.tensor([[7], [9]]), accumulate)
    mask = X > 10
    check(aten.index_put.default, X, [mask], SCALAR, accumulate)
    check(aten.index_put.default, X, [mask], torch.arange(13.0), accumulate)
    check(aten.index_put.default, X, [mask[:, :, 0]], torch.arange(12.0).reshape(3, 4), accumulate)
    check(aten.index_put.default, X, [mask[:, :, 0]], torch.arange(4.0), accumulate)
    check(aten.index_put.default, X, [mask[0, 0, :2]], torch.ones(0, 3, 4), accumulate)
    column = torch.tensor([True, False, True])
    check(aten.index_put.default, X, [None, column], torch.ones(2, 2, 4), accumulate)
    check(aten.index_put.default, X, [None, column], torch.ones(1, 4), accumulate)


def test_index_put_adds_up() -> None:
    rows = torch.tensor([1, 1, 1])
    check(aten.index_put.default, torch.zeros(3), [rows], torch.tensor([1.0, 2, 4]), True)
    flags = torch.zeros(3, dtype=torch.bool)
    check(aten.index_put.default, flags, [rows], torch.tensor([True, True, False]), True)


def test_along_a_dimension() -> None:
    index, src = torch.tensor([2, 0]), torch.full((2, 2, 4), -1.0)
    check(aten.index_select.default, X, 1, index)
    check(aten.index_select.default, X, -1, torch.tensor(3))
    check(aten.index_select.default, SCALAR, 0, torch.tensor([0]))
    check(aten.index_add.default, X, 1, torch.tensor([2, 2]), src, alpha=2)
    check(aten.index_add.default, SCALAR, 0, torch.tensor([0]), torch.tensor(1.0))
    check(aten.index_copy.default, X, 1, index, src)
    check(aten.index_fill.int_Scalar, X, 1, index, 9)
    check(aten.index_fill.int_Tensor, INTS, -1, torch.tensor(2), torch.tensor(5))
    flags = X > 100
    check(aten.index_add.default, flags, 0, torch.tensor([1]), X[:1] > 3)


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_reduced(reduce: str, include_self: bool) -> None:
    index = torch.tensor([[0, 0, 1, 2], [2, 2, 2, 0]])
    src = torch.tensor([[1.0, -2.0, 3.5, NAN], [7.0, 8.0, -9.0, 4.0]])
    base = torch.randn(3, 4)
    for x, added in ((base, src), ((base * 9).int(), (src.nan_to_num() * 3).int())):
        check(aten.scatter_reduce.two, x, 0, index, added, reduce, include_self=include_self)
        if reduce != "sum":
            rows = torch.tensor([1, 1])
            check(aten.index_reduce.default, x, 0, rows, added, reduce, include_self=include_self)


def test_gather_and_scatter() -> None:
    index = torch.tensor([[[0, 2], [1, 0]]])
    check(aten.gather.default, X, 2, index)
    check(aten.gather.default, SCALAR, 0, torch.tensor(0))
    check(aten.gather.default, X, 0, torch.zeros(0, 0, 0, dtype=torch.int64))
    check(aten.scatter.src, X, 1, index, -X)
    check(aten.scatter.value, INTS, 0, index.clamp(max=1), 3.7)
    check(aten.scatter_add.default, X, 2, index.int().long(), X)
    check(aten.scatter.reduce, X, 2, index, X, reduce="multiply")
    check(aten.scatter.value_reduce, X, 2, index, 2, reduce="add")
    check(aten.scatter.src, SCALAR, 0, torch.tensor(0), torch.tensor(1.0))


def test_a_negative_position_is_out_of_range_where_torch_has_none() -> None:
    """Reads at out-of-range indices return some element, here the first; writes are dropped."""
    x, index, one = torch.arange(1.0, 4), torch.tensor([-1]), torch.full((1,), 9.0)
    for op in (aten.index_add.default, aten.index_copy.default, aten.scatter_add.default):
        assert lowered(op, x, 0, index, one)[0].tolist() == [1, 2, 3]
    for include in (True, False):
        for reduction in ("sum", "prod", "mean", "amax", "amin"):
            for op in (aten.scatter_reduce.two, aten.index_reduce.default):
                if (op, reduction) != (aten.index_reduce.default, "sum"):
                    (actual,) = lowered(op, x, 0, index, one, reduction, include_self=include)
                    assert actual.tolist() == [1, 2, 3]
    assert lowered(aten.scatter.src, x, 0, index, one)[0].tolist() == [1, 2, 3]
    assert lowered(aten.scatter.value, x, 0, index, 9.0)[0].tolist() == [1, 2, 3]
    assert lowered(aten.gather.default, x, 0, index)[0].tolist() == [1]
    assert lowered(aten.index_select.default, x, 0, index)[0].tolist() == [1]
    check(aten.index_fill.int_Scalar, x, 0, index, 9)
    check(aten.take.default, x, index)


def test_flat() -> None:
    index = torch.tensor([[0, -1], [5, 23]])
    check(aten.take.default, X, index)
    for accumulate in (False, True):
        check(aten.put.default, X, index, torch.tensor([[1.0, 2], [3, 4]]), accumulate)


def test_masks() -> None:
    mask = X > 10
    check(aten.masked_scatter.default, X, mask, -torch.arange(20.0))
    check(aten.masked_scatter.default, X, mask[:, :1, :1], -X)
    check(aten.masked_scatter_backward.default, X, mask, [13])
    check(aten.masked_select.default, X, mask)
    check(aten.masked_select.default, SCALAR, torch.tensor(True))
    check(aten.masked_select.default, X, mask[0])
    check(aten.nonzero.default, mask)
    check(aten.nonzero.default, SCALAR)
    check(aten.nonzero.default, torch.zeros(0, 3))
    check(aten.nonzero_static.default, mask, size=20)
    check(aten.nonzero_static.default, mask, size=3, fill_value=7)
    check(aten.nonzero_static.default, torch.zeros(5, 0, 5), size=3)
    check(aten.repeat_interleave.Tensor, torch.tensor([2, 0, 3]))


def test_inside_of_bounds() -> None:
    indices = [torch.tensor([-5, 0, 1, 9])]
    mask = torch.tensor([False, True, True, False])
    check(aten._unsafe_masked_index.default, X[:, :, 0], mask.reshape(4, 1), indices, -1)
    values = torch.ones(4, 3)
    spread = mask.reshape(4, 1)
    check(aten._unsafe_masked_index_put_accumulate.default, X[:, :, 0], spread, indices, values)


@pytest.mark.parametrize("op", [aten.scatter_add.default, aten.index_add.default])
def test_sums_of_half_precision_round_once(op: torch._ops.OpOverload) -> None:
    ones = torch.ones(300, dtype=torch.bfloat16)
    index = torch.zeros(300, dtype=torch.int64)
    (actual,) = lowered(op, torch.zeros(1, dtype=torch.bfloat16), 0, index, ones)
    assert float(actual[0]) == 300.0


def test_values_of_half_precision_put_in_one_place_round_once() -> None:
    ones = torch.ones(300, dtype=torch.bfloat16)
    index = torch.zeros(300, dtype=torch.int64)
    zero = torch.zeros(1, dtype=torch.bfloat16)
    (actual,) = lowered(aten.index_put.default, zero, [index], ones, True)
    assert float(actual[0]) == 300.0
