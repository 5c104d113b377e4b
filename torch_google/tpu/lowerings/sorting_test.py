# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
X = torch.tensor([[3.0, NAN, -1.0, 3.0, INF], [0.0, -0.0, 2.0, -INF, 2.0]])
INTS = torch.tensor([[3, 1, 3, -128, 127], [0, 0, 1, 5, 2]])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
def test_stable_order(dim: int, descending: bool) -> None:
    for x in (X, X.to(torch.bfloat16), INTS, INTS.to(torch.uint8), INTS > 2):
        check(aten.sort.stable, x, stable=True, dim=dim, descending=descending)
        check(aten.argsort.stable, x, stable=True, dim=dim, descending=descending)
    check(aten.sort.default, torch.tensor(3.0), 0, descending)
    check(aten.sort.default, torch.zeros(0, 2), 0, descending)


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest: bool) -> None:
    x = torch.tensor([[3.0, 9.0, -1.0, 4.0], [NAN, 1.0, INF, -INF]])
    check(aten.topk.default, x, 2, 1, largest)
    check(aten.topk.default, x.to(torch.bfloat16), 1, 0, largest)
    check(aten.topk.default, torch.tensor([7, 2, 9]), 0, -1, largest)
    check(aten.topk.default, torch.tensor(7), 1, 0, largest)


@pytest.mark.parametrize("right", [False, True])
def test_search(right: bool) -> None:
    rows = torch.tensor([[1.0, 3.0, 3.0, 7.0], [0.0, 2.0, 4.0, 6.0]])
    queries = torch.tensor([[3.0, 0.0, 9.0], [4.0, 5.0, NAN]])
    check(aten.searchsorted.Tensor, rows, queries, right=right)
    check(aten.searchsorted.Tensor, rows[0], queries, right=right, out_int32=True)
    check(aten.searchsorted.Scalar, rows[0], 3, right=right)
    check(aten.bucketize.Tensor, queries, rows[0], right=right)
    mixed = torch.tensor([[7.0, 1.0, 3.0, 3.0]])
    check(aten.searchsorted.Tensor, mixed, queries[:1], sorter=torch.argsort(mixed), right=right)


def test_unique() -> None:
    x = torch.tensor([[2, 1, 2], [2, 1, 2], [0, 5, 0]])
    for counts in (False, True):
        check(aten._unique2.default, x, True, True, counts)
    check(aten._unique2.default, X, True, True, True)
    for dim in (0, 1):
        check(aten.unique_dim.default, x, dim, True, True, True)
        check(aten.unique_consecutive.default, x, True, True, dim)
    check(aten.unique_consecutive.default, torch.tensor([1, 1, 2, 2, 1]), True, True)
    check(aten.unique_consecutive.default, torch.tensor([1.0, 1.0, NAN, NAN]))
    check(aten.unique_consecutive.default, torch.zeros(0))
    check(aten.unique_consecutive.default, torch.ones(1, 2), True, True, 0)


@pytest.mark.parametrize("dim", [0, 1])
def test_scans(dim: int) -> None:
    for x in (X, X.nan_to_num(1.0, 2.0, -2.0), INTS, INTS.to(torch.int8), INTS > 2):
        check(aten.cumsum.default, x, dim)
        check(aten.cumprod.default, x, dim)
        check(aten.cummax.default, x, dim)
        check(aten.cummin.default, x, dim)
    check(aten.logcumsumexp.default, X, dim)
    check(aten.cumsum.default, INTS, dim, dtype=torch.float32)
    check(aten.cumsum.default, torch.tensor(2.0), 0)
    check(aten.cummax.default, torch.zeros(0, 2), dim)
    check(aten.cumsum.default, torch.full((2, 300), 0.1, dtype=torch.bfloat16), dim)


def test_searches_of_nothing() -> None:
    check(aten.searchsorted.Tensor, torch.zeros(0, 5), torch.zeros(0, 3))
    check(aten.searchsorted.Tensor, torch.zeros(5, 0), torch.zeros(5, 3))
    check(aten.searchsorted.Tensor, torch.zeros(2, 5), torch.zeros(2, 0))
