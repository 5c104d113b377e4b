# SPDX-License-Identifier: Apache-2.0
"""Operators for which torch's meta kernels return wrong shapes work in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from torch_google.tpu.release import V2_6

_OFFSETS = torch.tensor([3, 8, 8, 16], dtype=torch.int32)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _experts(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    # torch v2.6 does not have grouped_mm.
    return functional.grouped_mm(x, weights, offs=_OFFSETS.to(x.device))


def _outcome(
    function: Callable[..., torch.Tensor], inputs: list[torch.Tensor], device: str
) -> list[torch.Tensor]:
    """Run a function on a device. Return its result and gradients as CPU tensors."""
    placed = [x.detach().to(device).requires_grad_() for x in inputs]
    out = function(*placed)
    out.float().square().sum().backward()
    return [t.detach().cpu() for t in (out, *(x.grad for x in placed if x.grad is not None))]


def _compare(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    expected = _outcome(function, list(inputs), "cpu")
    compiled: Any = torch.compile(function, backend="tpu", fullgraph=True)
    actual = _outcome(compiled, list(inputs), "tpu")
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def test_heads_that_share_keys_and_values() -> None:
    _compare(_attention, torch.randn(2, 4, 8, 16), *torch.randn(2, 2, 2, 8, 16))


@pytest.mark.skipif(V2_6, reason="v2.6 has no grouped products")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_mixtures_of_experts(dtype: torch.dtype) -> None:
    _compare(_experts, torch.randn(16, 32).to(dtype), torch.randn(4, 32, 24).to(dtype))
