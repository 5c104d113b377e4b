# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments(reduce: str, initial: float | None) -> None:
    x = torch.randn(5, 2)
    lengths = torch.tensor([2, 0, 3])
    check(aten.segment_reduce.default, x, reduce, lengths=lengths, initial=initial)
    offsets = torch.tensor([0, 1, 1, 5])
    check(aten.segment_reduce.default, x, reduce, offsets=offsets, initial=initial)
    rows = torch.tensor([[1, 2], [3, 0]])
    check(
        aten.segment_reduce.default,
        torch.randn(2, 3),
        reduce,
        lengths=rows,
        axis=1,
        unsafe=True,
        initial=initial,
    )


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_gradients(reduce: str) -> None:
    data = torch.tensor([2.0, 0.0, 3.0, float("nan"), 5.0, 5.0, 0.0, 0.0, 1.0])
    lengths = torch.tensor([3, 1, 2, 2, 0, 1])
    for initial in (None, 2.0):
        options = {"lengths": lengths, "axis": 0, "initial": initial}
        out = torch.segment_reduce(data, reduce, unsafe=True, **options)
        slopes = torch.arange(1.0, 7)
        check(aten._segment_reduce_backward.default, slopes, out, data, reduce, **options)
    x, sizes = torch.randn(2, 5, 3), torch.tensor([[2, 3], [1, 4]])
    out = torch.segment_reduce(x, reduce, lengths=sizes, axis=1, unsafe=True)
    check(aten._segment_reduce_backward.default, out * 2, out, x, reduce, lengths=sizes, axis=1)
