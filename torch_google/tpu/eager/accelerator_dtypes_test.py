# SPDX-License-Identifier: Apache-2.0
"""Test dtypes that torch supports on CUDA but not on the CPU.

The expected results are those of the CPU in a wider dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

from torch_google.tpu import registration

registration.register()

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_HALVES = (torch.float16, torch.bfloat16)
_VALUES = torch.tensor([0, 1, 1, 2, 5, 9, 10, 3])
_SCORES = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def _matches(
    function: Callable[[torch.Tensor], Any], x: torch.Tensor, narrow: torch.dtype, wide: torch.dtype
) -> None:
    """Check that a result, and any gradient, match those that the CPU computes in `wide`."""
    on_cpu = x.to(narrow).to(wide)
    on_tpu = x.to(narrow).to("tpu")
    if narrow.is_floating_point:
        on_cpu.requires_grad_()
        on_tpu.requires_grad_()
    expected, actual = function(on_cpu), function(on_tpu)
    assert actual.dtype == narrow
    torch.testing.assert_close(actual.cpu(), expected.to(narrow), rtol=1e-2, atol=1e-2)
    if narrow.is_floating_point:
        expected.sum().backward()
        actual.sum().backward()
        assert on_cpu.grad is not None
        assert on_tpu.grad is not None
        torch.testing.assert_close(on_tpu.grad.cpu(), on_cpu.grad.to(narrow), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", _INTEGERS)
@pytest.mark.parametrize("bounds", [(), (0, 8), (0, 10), (5, 5)])
def test_histc_of_integers(dtype: torch.dtype, bounds: tuple[int, ...]) -> None:
    _matches(lambda x: torch.histc(x, 4, *bounds), _VALUES, dtype, torch.float32)


def test_histc_of_integers_is_exact_and_writes_to_out() -> None:
    large = torch.tensor([2**53, 2**53 + 1, 2**53 + 1], device="tpu")
    out = torch.empty(2, dtype=torch.int64, device="tpu")
    torch.histc(large, 2, out=out)
    assert out.tolist() == [1, 2]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_results_keep_their_dtype(device: str) -> None:
    """A dtype that only accelerators support is refused in out= if the input has another one."""
    with pytest.raises(RuntimeError, match="should have the same dtype"):
        torch.histc(
            _VALUES.float().to(device), 4, out=torch.empty(4, dtype=torch.int64, device=device)
        )
    half = torch.empty(1, 2, 2, 1, 1, dtype=torch.float16, device=device)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.ops.aten.avg_pool3d.out(torch.ones(1, 2, 4, 2, 2, device=device), [2, 2, 2], out=half)


def test_histc_of_one_value_refuses_as_ever() -> None:
    with pytest.raises(RuntimeError, match="max must be larger than min"):
        torch.histc(_VALUES.to("tpu"), 4, 5, 1)


@pytest.mark.parametrize("dtype", _HALVES)
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: F.avg_pool3d(x, 2), torch.arange(32.0).view(1, 2, 4, 2, 2)),
        (
            lambda x: F.interpolate(x, (3, 3), mode="bilinear", antialias=True),
            torch.arange(50.0).view(1, 2, 5, 5) / 10,
        ),
        (
            lambda x: F.interpolate(x, (3, 3), mode="bicubic", antialias=True),
            torch.arange(50.0).view(1, 2, 5, 5) / 10,
        ),
        (lambda x: F.multi_margin_loss(x, torch.tensor([0, 3, 1]).to(x.device)), _SCORES),
        (
            lambda x: F.multilabel_margin_loss(
                x, torch.tensor([[0, 3, -1, -1], [1, -1, -1, -1], [2, 0, 1, -1]]).to(x.device)
            ),
            _SCORES,
        ),
        (lambda x: F.rrelu(x, 0.2, 0.2, training=True), _SCORES),
    ],
    ids=["avg_pool3d", "bilinear", "bicubic", "multi_margin", "multilabel_margin", "rrelu"],
)
def test_halves(function: Any, x: torch.Tensor, dtype: torch.dtype) -> None:
    _matches(function, x, dtype, torch.float32)
