# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check, lowered, to_tensor
from torch_google.tpu.release import V2_6

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
GENERATOR = torch.Generator().manual_seed(1)
X = torch.randn(3, 4, 5, generator=GENERATOR)
INTS = torch.randint(-100, 100, (3, 4), generator=GENERATOR)
INPUTS = [X, X.to(torch.bfloat16), X.double(), INTS, INTS.to(torch.int8), INTS > 0, X[0, 0, 0]]
HOLES = torch.tensor([[1.0, NAN, 3.0, -2.0], [NAN, NAN, NAN, NAN], [INF, 1.0, 1.0, -INF]])


@pytest.mark.parametrize("x", INPUTS, ids=lambda x: f"{x.dtype}{x.ndim}")
def test_of_every_dtype(x: torch.Tensor) -> None:
    loose: dict[str, Any] = {"rtol": 2e-2, "atol": 2e-2} if x.dtype == torch.bfloat16 else {}
    for dim in ([0], [-1], None, [], [0, -1] if x.ndim else [0]):
        check(aten.sum.dim_IntList, x, dim, **loose)
        check(aten.sum.dim_IntList, x, dim, True, **loose)
        check(aten.any.dims, x, dim)
        check(aten.all.dims, x, dim, True)
    for axis in (0, -1):
        check(aten.prod.dim_int, x, axis, **loose)
        check(aten.amax.default, x, [axis])
        check(aten.amin.default, x, [axis], True)
        check(aten.aminmax.default, x, dim=axis)
        check(aten.any.dim, x, axis)
        check(aten.all.dim, x, axis, True)
        if x.dtype != torch.bool:
            check(aten.argmax.default, x, axis)
            check(aten.argmin.default, x, axis, True)
        check(aten.max.dim, x, axis)
        check(aten.min.dim, x, axis, True)
    for op in (aten.sum, aten.prod, aten.any, aten.all, aten.amax, aten.aminmax, aten.max):
        check(op.default, x, **loose)
    for op in (aten.min, aten.count_nonzero):
        check(op.default, x)


def test_sums_wrap_and_widen() -> None:
    check(aten.sum.default, torch.full((300,), 100, dtype=torch.int8))
    check(aten.sum.default, torch.tensor([2**63 - 1, 1]))
    check(aten.sum.default, torch.full((5000,), 0.1, dtype=torch.bfloat16))
    check(aten.sum.default, X, dtype=torch.float64)
    check(aten.sum.default, INTS, dtype=torch.float32)
    check(aten.mean.default, X > 0, dtype=torch.float32)
    check(aten.mean.dim, X.to(torch.bfloat16), [0, 2], True)
    check(aten.mean.dim, X, None)
    check(aten.nansum.default, HOLES, [1])
    check(aten.nansum.default, HOLES)


def test_of_nothing() -> None:
    x = torch.zeros(0, 3)
    check(aten.sum.dim_IntList, x, [0])
    check(aten.prod.default, x)
    check(aten.mean.dim, x, [0])
    check(aten.var.correction, x, [0])
    check(aten.any.dim, x, 0)
    check(aten.all.default, x)
    check(aten.amax.default, x, [1])
    check(aten.logsumexp.default, x, [0])
    check(aten.linalg_vector_norm.default, x, 2)
    check(aten.median.default, x)


def test_nan_wins() -> None:
    for op in (aten.max, aten.min):
        check(op.dim, HOLES, 1)
        check(op.default, HOLES)
    for op in (aten.argmax, aten.argmin, aten.amax, aten.amin, aten.aminmax):
        check(op.default, HOLES)
    check(aten.argmax.default, torch.tensor([[1, 5, 5], [7, 7, 2]]), 1)


@pytest.mark.parametrize("correction", [None, 0, 1, 2.5, 10])
def test_variance(correction: float | None) -> None:
    for x in (X, X.to(torch.complex64) * (1 + 2j), X.double()):
        check(aten.var.correction, x, [0, 1], correction=correction)
        check(aten.std.correction, x, None, correction=correction, keepdim=True)
        check(aten.var_mean.correction, x, [-1], correction=correction)
        check(aten.std_mean.correction, x, correction=correction)
    check(aten.var.correction, torch.tensor(2.0), correction=correction)


@pytest.mark.parametrize("order", [0, 1, 2, 3, -1, 0.5, INF, -INF])
def test_norms(order: float) -> None:
    for x in (X, X.to(torch.complex64) * 1j, X.to(torch.bfloat16)):
        check(aten.linalg_vector_norm.default, x, order)
        check(aten.linalg_vector_norm.default, x, order, [1], True)
        check(aten.norm.ScalarOpt_dim, x, order, [0])
    check(aten.linalg_vector_norm.default, X, order, dtype=torch.float64)


def test_logsumexp() -> None:
    check(aten.logsumexp.default, X, [0, 1])
    check(aten.logsumexp.default, torch.tensor([[-INF, -INF], [INF, 1.0], [NAN, 0.0]]), [1], True)
    check(aten.logsumexp.default, INTS, [0])


@pytest.mark.parametrize("n", [1, 4, 5])
def test_picked_by_rank(n: int) -> None:
    x = torch.randn(3, n, generator=GENERATOR)
    check(aten.median.dim, x, 1)
    check(aten.median.default, x)
    check(aten.nanmedian.dim, x, 1, True)
    check(aten.kthvalue.default, x, n // 2 + 1, 1)
    check(aten.kthvalue.default, x, 1, -1, True)


@pytest.mark.parametrize("op", [aten.median.default, aten.nanmedian.default])
@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
        *(torch.complex64, torch.complex128),
    ],
)
def test_medians_of_nothing(op: torch._ops.OpOverload, dtype: torch.dtype) -> None:
    check(op, torch.zeros(0, 3, dtype=dtype))


def test_medians_of_holes() -> None:
    for op in (aten.median, aten.nanmedian):
        check(op.default, HOLES)
        got, want = lowered(op.dim, HOLES, 1), op.dim(HOLES, 1)
        torch.testing.assert_close(to_tensor(got[0]), want[0], equal_nan=True)
    check(aten.median.dim, torch.tensor(3.0), 0)


def test_mode() -> None:
    x = torch.tensor([[1, 2, 2, 3, 3], [5, 5, 5, 1, 1], [4, 3, 2, 1, 0]])
    check(aten.mode.default, x)
    check(aten.mode.default, x, 0, True)
    check(aten.mode.default, torch.tensor(2.0))


def test_histograms() -> None:
    x = torch.tensor([0.0, 1.0, 1.0, 2.0, 5.0, 9.9, 10.0, -3.0])
    check(aten.histc.default, x, 4)
    check(aten.histc.default, x, 5, 0, 10)
    check(aten.histc.default, torch.ones(3), 3)
    check(aten.bincount.default, torch.tensor([1, 1, 4]))
    check(aten.bincount.default, torch.tensor([1, 1, 4]), torch.tensor([0.5, 1.0, 2.0]), 8)
    check(aten.bincount.default, torch.zeros(0, dtype=torch.int64), None, 3)
    check(aten.histogram.bin_ct, x, 4)
    check(aten.histogram.bin_ct, x, 5, range=[0.0, 10.0], density=True, weight=x.abs())
    check(aten.histogram.bins_tensor, x, torch.tensor([0.0, 1.0, 3.0, 10.0]))
    pairs = torch.rand(20, 2, generator=GENERATOR)
    check(aten._histogramdd_from_bin_cts.default, pairs, [3, 4])
    check(aten._histogramdd_bin_edges.default, pairs, [3, 4], range=[0.0, 1.0, 0.0, 1.0])


def test_trace() -> None:
    check(aten.trace.default, INTS)


@pytest.mark.skipif(V2_6, reason="v2.6 has no hash of a tensor")
def test_hash() -> None:
    check(aten.hash_tensor.default, X)
    check(aten.hash_tensor.default, INTS, [1])
