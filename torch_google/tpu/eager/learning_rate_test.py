# SPDX-License-Identifier: Apache-2.0
"""A fused optimizer accepts a CPU tensor with one element, of any shape, as its learning rate."""

from __future__ import annotations

import pytest
import torch


def _trained(optimizer: type[torch.optim.Optimizer], lr: torch.Tensor, device: str) -> torch.Tensor:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2).to(device)
    steps = optimizer(model.parameters(), lr=lr, fused=True)
    for _ in range(3):
        steps.zero_grad()
        model(torch.ones(4, 3, device=device)).square().mean().backward()
        steps.step()
    return model.weight.detach().cpu()


@pytest.mark.parametrize("shape", [[], [1], [1, 1]])
@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize(
    "optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad]
)
def test_weights_equal_the_cpus(
    optimizer: type[torch.optim.Optimizer], mode: str, shape: list[int]
) -> None:
    if optimizer is torch.optim.Adagrad and not hasattr(
        torch.ops.aten._fused_adagrad_, "tensor_lr"
    ):
        pytest.skip("this release of torch has no fused Adagrad with a tensor as learning rate")
    expected = _trained(optimizer, torch.full(shape, 0.1), "cpu")
    with torch.tpu.eager_mode(mode):
        assert torch.allclose(
            _trained(optimizer, torch.full(shape, 0.1), "tpu"), expected, atol=1e-6
        )


def test_other_shapes_are_refused() -> None:
    with pytest.raises((RuntimeError, ValueError), match=r"same device|1-element"):
        _trained(torch.optim.SGD, torch.full([2], 0.1), "tpu")
