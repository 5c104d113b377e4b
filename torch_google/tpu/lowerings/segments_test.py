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
