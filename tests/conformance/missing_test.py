# SPDX-License-Identifier: Apache-2.0
"""Test that MISSING.md lists exactly the operators that have no device kernel in the dispatcher."""

from __future__ import annotations

import pytest
import torch

from tests.conformance import missing
from torch_google.tpu import autoload
from torch_google.tpu.release import V2_6

_UPDATE = "Run: python -m tests.conformance.missing"


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    autoload()
    torch.tpu.init()


@pytest.mark.skipif(V2_6, reason="the page is about the torch release of the wheel")
def test_the_page_is_of_today() -> None:
    text = missing.page(missing.missing(), missing.read_reasons())
    assert missing.FILE.read_text(encoding="utf-8") == text, f"MISSING.md is out of date. {_UPDATE}"


def test_an_operator_needs_a_reason_and_a_reason_an_operator() -> None:
    reasons = [{"operator": "aten::a*", "reason": "why"}]
    assert "| `ab` | why |" in missing.page(["aten::ab"], reasons)
    with pytest.raises(ValueError, match="aten::b has no lowering"):
        missing.page(["aten::b"], reasons)
    with pytest.raises(ValueError, match="match no missing operator"):
        missing.page([], reasons)


@pytest.mark.full
def test_operators_that_are_only_other_kernels_are_computed() -> None:
    x = torch.eye(3, device="tpu")
    assert torch.equal(x, x)
    assert x.is_set_to(x)
    assert x.to_sparse().to_dense().sum().item() == 3
    assert torch.nn.functional.scaled_dot_product_attention(x, x, x).shape == (3, 3)
    padded = torch.ones(1, 2, 3, device="tpu")
    assert torch._nested_from_padded(padded, torch.tensor([[2, 3]])).is_nested
    assert torch._nested_tensor_from_mask(padded, padded[..., 0] > 0).is_nested
