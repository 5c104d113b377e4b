# SPDX-License-Identifier: Apache-2.0
"""Values and gradients of strided and jagged nested tensors match those on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

PARTS = (torch.arange(6.0).view(2, 3) - 2, torch.arange(9.0).view(3, 3) / 4)
MASK = torch.tensor([[True, True, False], [True, True, True]])

CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda n: n,
    "product": lambda n: n * 2 + n,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "softmax": lambda n: n.softmax(-1),
    "linear": lambda n: functional.linear(n, torch.ones(4, 3, device=n.device)),
    "layer_norm": lambda n: functional.layer_norm(
        n, (3,), torch.ones(3, device=n.device), torch.ones(3, device=n.device)
    ),
    "sum": lambda n: n.sum(-1, keepdim=True),
    "clone": torch.clone,
    "half": lambda n: n.half().float(),
    "moved": lambda n: n.to("cpu").to(n.device),
}


def _nested(device: str, layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([part.to(device) for part in PARTS], layout=layout)


def _agree(call: Callable[[str], Any]) -> None:
    expected, actual = (pytree.tree_leaves(call(device)) for device in ("cpu", "tpu"))
    assert {value.device.type for value in actual} == {"tpu"}
    torch.testing.assert_close([value.cpu() for value in actual], expected)


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=["strided", "jagged"])
@pytest.mark.parametrize("name", CALLS)
def test_an_operator_of_nested_tensors(name: str, layout: torch.layout, mode: str) -> None:
    with torch.tpu.eager_mode(mode):
        _agree(lambda on: CALLS[name](_nested(on, layout)).to_padded_tensor(-1.0))


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=["strided", "jagged"])
def test_parts_and_transposes(layout: torch.layout) -> None:
    _agree(lambda on: _nested(on, layout).unbind())
    _agree(lambda on: _nested(on, layout).transpose(-1, -2).unbind())


def test_products_of_matrices() -> None:
    def product(on: str) -> Any:
        nested = _nested(on, torch.strided)
        return torch.matmul(nested, nested.transpose(-1, -2)).unbind()

    _agree(product)


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=["strided", "jagged"])
def test_gradients_reach_the_parts(layout: torch.layout) -> None:
    def gradients(on: str) -> Any:
        parts = [part.clone().to(on).requires_grad_() for part in PARTS]
        nested = torch.nested.as_nested_tensor(parts, layout=layout)
        scale = torch.ones(3, device=on)
        normed = functional.layer_norm(nested, (3,), scale, scale)
        total = nested * nested
        (total + normed.relu()).to_padded_tensor(0.0).sin().sum().backward()
        return [part.grad for part in parts]

    _agree(gradients)


def test_attention_over_rows_of_all_lengths() -> None:
    def attended(on: str) -> torch.Tensor:
        rows = [torch.arange(12.0).view(3, 4).to(on) / 10, torch.arange(8.0).view(2, 4).to(on)]
        heads = torch.nested.nested_tensor(rows).view(2, -1, 2, 2).transpose(1, 2).contiguous()
        actual = functional.scaled_dot_product_attention(heads, heads, heads)
        return actual.transpose(1, 2).contiguous().to_padded_tensor(0.0)

    _agree(attended)


def test_a_nested_tensor_of_a_padded_one() -> None:
    sizes = torch.tensor([[2, 4], [3, 4]])
    padded = torch.arange(24.0).view(2, 3, 4)
    _agree(lambda on: torch._nested_from_padded(padded.to(on), sizes).to_padded_tensor(-1.0))
    _agree(
        lambda on: torch._nested_tensor_from_mask(padded.to(on), MASK.to(on)).to_padded_tensor(-1.0)
    )


def test_a_sum_of_another_dimension_is_refused_as_on_the_cpu() -> None:
    for on in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="NestedTensor only allows reduction of a single"):
            _nested(on, torch.strided).sum((0, 1), keepdim=True)


def test_an_operator_without_a_kernel_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="_transform_bias_rescale_qkv"):
        torch._transform_bias_rescale_qkv(
            _nested("tpu", torch.strided), torch.ones(3, device="tpu"), 1
        )
