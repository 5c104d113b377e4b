# SPDX-License-Identifier: Apache-2.0
"""The estimate counts attention's flops as torch's flop counter does.

This covers the forward and backward operators, with and without kernels.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from torch_google.tpu.estimate.capture import Captured, capture
from torch_google.tpu.estimate.costs import count
from torch_google.tpu.release import V2_6

if V2_6:
    pytest.skip("v2.6 cannot trace a training step", allow_module_level=True)

_OP = torch.ops.aten._scaled_dot_product_efficient_attention
_FORWARD, _BACKWARD = (f"_scaled_dot_product_efficient_attention{end}" for end in ("", "_backward"))

# Batch size, number of query heads, number of key and value heads, number of queries, number of
# keys, and head size.
_SHAPES = [
    (2, 4, 4, 128, 128, 64),
    (1, 8, 8, 512, 512, 128),
    (1, 4, 2, 512, 512, 128),
    (2, 8, 1, 64, 256, 32),
    (1, 1, 1, 7, 5, 16),
]


class Attention(torch.nn.Module):
    """Attention that scales q, k and v by a parameter, so that a step computes their gradients."""

    def __init__(self, head: int, causal: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(head))
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        w = self.weight
        return functional.scaled_dot_product_attention(
            q * w, k * w, v * w, is_causal=self.causal, enable_gqa=True
        )


def _tensors(shape: tuple[int, ...], **options: Any) -> list[Tensor]:
    batch, heads, shared, queries, keys, head = shape
    sizes = (heads, queries), (shared, keys), (shared, keys)
    return [torch.empty(batch, *size, head, device="meta", **options) for size in sizes]


def _captured(shape: tuple[int, ...], causal: bool) -> Captured:
    with torch.device("meta"):
        model = Attention(shape[-1], causal)
    return capture(
        model,
        lambda *inputs: model(*inputs).sum(),
        _tensors(shape),
        torch.optim.SGD(model.parameters()),
        devices=jax.local_devices(backend="cpu")[:1],
        mesh=None,
        shard=None,
    )


def _counted_by_torch(shape: tuple[int, ...], causal: bool) -> tuple[int, int]:
    """Return the flops of the forward and of the backward operator, on meta tensors."""
    tensors = _tensors(shape, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        out = _OP(*tensors, None, True, 0.0, causal)[0]
    with FlopCounterMode(display=False) as backward:
        out.sum().backward()
    return forward.get_total_flops(), backward.get_total_flops()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", _SHAPES)
def test_flops_are_those_of_torch(shape: tuple[int, ...], causal: bool) -> None:
    captured = _captured(shape, causal)
    by_op = {o.op: (node, o.flops) for node, o in captured.operators.items() if o.flops}
    (forward, forward_flops), (backward, backward_flops) = by_op[_FORWARD], by_op[_BACKWARD]
    assert (forward_flops, backward_flops) == _counted_by_torch(shape, causal)

    # The text of a program with kernels, in the form that libtpu prints. XLA counts only the 1234
    # flops that the forward kernel declares.
    text = "\n".join((_kernel(forward, 1234), _kernel(backward), _kernel(backward)))
    assert _total(captured, text, 1000.0 + 1234.0) == 1000.0 + forward_flops + backward_flops


def test_a_kernel_without_a_formula_keeps_its_own_estimate() -> None:
    captured = _captured(_SHAPES[0], False)
    node = next(n for n, o in captured.operators.items() if not o.flops)
    assert _total(captured, _kernel(node, 77), 100.0) == 100.0
    assert _total(captured, _kernel(10**6, 77), 100.0) == 100.0


@pytest.mark.parametrize("causal", [False, True])
def test_xla_counts_the_same_without_kernels(causal: bool) -> None:
    captured = _captured((1, 4, 2, 256, 256, 64), causal)
    counted = float(captured.lowered.compile().cost_analysis()["flops"])
    total = _total(captured, "", counted)
    # torch counts seven matmuls, because its formula for the backward pass computes the scores
    # again. Without kernels, XLA reuses them and computes only six matmuls. XLA also counts the
    # softmax and its gradient, which add 3% and which torch does not count.
    by_torch = sum(o.flops for o in captured.operators.values())
    assert total == pytest.approx(by_torch * 6 / 7, rel=0.06)


def _total(captured: Captured, kernels: str, counted_by_xla: float) -> float:
    text = f"ENTRY %main (a: f32[8]) -> f32[8] {{\n  %a = f32[8]{{0}} parameter(0)\n{kernels}\n}}\n"
    return count(text, captured.operators, len(captured.devices), counted_by_xla).flops.total


def _kernel(node: int, flops: int | None = None) -> str:
    estimate = "" if flops is None else f'"cost_estimate":{{"flops":"{flops}"}},'
    return (
        f'  %k.{node} = f32[8]{{0}} custom-call(%a), custom_call_target="tpu_custom_call", '
        f'metadata={{op_name="jit(_function)/n{node}/flash_mha/pallas_call" stack_frame_id=1}}, '
        f'backend_config={{"custom_call_config":{{"body":"TUzv",{estimate}"serialization":"1"}}}}'
    )
