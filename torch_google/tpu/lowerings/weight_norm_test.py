# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

import torch_google.tpu.lowerings.weight_norm  # noqa: F401 (registers)
from torch_google.tpu.lowerings import against_cpu


@pytest.mark.parametrize("dim", [0, 2])
def test_the_gradient_is_autograds(dim: int) -> None:
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    others = [axis for axis in range(3) if axis != dim]
    g = torch.rand_like(v.detach().sum(others, keepdim=True)).requires_grad_()
    norms = v.norm(2, others, keepdim=True)
    weight = v * g / norms
    grad = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad(weight, [v, g], grad)
    op = torch.ops.aten._weight_norm_interface_backward.default
    actual = against_cpu.lowered(op, grad, v.detach(), g.detach(), norms.detach(), dim)
    torch.testing.assert_close([against_cpu.to_tensor(x) for x in actual], list(expected))
