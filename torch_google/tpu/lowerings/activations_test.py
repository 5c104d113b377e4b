# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.activations  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered
from torch_google.tpu.release import V2_6

aten = torch.ops.aten

# Values at and around each kink of the functions below, and values far from any kink.
X = torch.tensor([-200, -30, -3, -1.5, -1, -0.5, -0.01, 0, 0.01, 0.5, 1, 1.5, 3, 6, 21, 90, 200.0])
FORWARD: dict[str, list[Any]] = {
    "gelu": [{}, {"approximate": "tanh"}],
    "silu": [()],
    "mish": [()],
    "elu": [(), (1.5, 2.0, 0.5)],
    "celu": [(), (0.7,)],
    "hardtanh": [(), (-0.5, 1.5)],
    "leaky_relu": [(), (0.3,)],
    "softplus": [(), (2, 3)],
    "log_sigmoid_forward": [()],
    "threshold": [(0.5, 20)],
    "hardswish": [()],
    "hardsigmoid": [()],
    "softshrink": [(), (1.5,)],
    "hardshrink": [(), (1.5,)],
}
BACKWARD: dict[str, list[Any]] = {
    "gelu_backward": [{}, {"approximate": "tanh"}],
    "silu_backward": [()],
    "mish_backward": [()],
    "hardtanh_backward": [(-1, 1), (0, 6)],
    "leaky_relu_backward": [(0.1, False)],
    "softplus_backward": [(1, 20), (2, 3)],
    "threshold_backward": [(0,), (0.5,)],
    # At the two kinks of hardswish, v2.6 returns different gradients than later releases.
    "hardswish_backward": [] if V2_6 else [()],
    "hardsigmoid_backward": [()],
    "softshrink_backward": [(0.5,)],
    "hardshrink_backward": [(1.5,)],
}


def call(op: Any, *tensors: Any, option: Any, **kwargs: Any) -> None:
    if isinstance(option, dict):
        check(op, *tensors, **option, **kwargs)
    else:
        check(op, *tensors, *option, **kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str, dtype: torch.dtype) -> None:
    for option in FORWARD[name]:
        call(getattr(aten, name).default, X.to(dtype), option=option)
        call(getattr(aten, name).default, X[:0].to(dtype), option=option)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str, dtype: torch.dtype) -> None:
    for option in BACKWARD[name]:
        grad = torch.linspace(-2, 3, len(X)).to(dtype)
        call(getattr(aten, name).default, grad, X.to(dtype), option=option)


def test_the_rest() -> None:
    grad = torch.randn(len(X))
    for is_result in (True, False):
        check(aten.elu_backward.default, grad, 1.5, 2.0, 0.5, is_result, X)
    _, buffer = aten.log_sigmoid_forward.default(X)
    check(aten.log_sigmoid_backward.default, grad, X, buffer)
    weight = torch.randn(1).expand_as(X)
    check(aten._prelu_kernel.default, X, weight)
    check(aten._prelu_kernel_backward.default, grad, X, weight)
    for x, dim in ((torch.randn(3, 4, 6), -1), (torch.randn(3, 4, 6), 1)):
        check(aten.glu.default, x, dim)
        check(aten.glu_backward.default, torch.randn(aten.glu(x, dim).shape), x, dim)
    p = torch.tensor([-0.1, 0.0, 0.2, 0.5, 0.9, 1.0, 1.1])
    for eps in (None, 0.1):
        check(aten.logit_backward.default, torch.ones(7), p, eps)


def test_hardtanh_of_integers() -> None:
    check(aten.hardtanh.default, torch.arange(-5, 6), -2, 3)


def test_rrelu() -> None:
    x, noise = torch.randn(1000), torch.zeros(1000)
    op = aten.rrelu_with_noise_functional.default
    check(op, x, noise, 0.1, 0.3, False, only=1)
    out, slopes = lowered(op, x, noise, 0.1, 0.3, True)
    negative = x.numpy() < 0
    assert (slopes[~negative] == 1).all()
    assert 0.1 <= slopes[negative].min() <= 0.12
    assert 0.28 <= slopes[negative].max() <= 0.3
    assert abs(out - x.numpy() * slopes).max() < 1e-6
    for training in (True, False):
        args = (torch.randn(1000), x, torch.rand(1000), 0.1, 0.3, training, False)
        check(aten.rrelu_with_noise_backward.default, *args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [0, -1])
def test_forward_derivatives_of_glu(dim: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x, dx, grad, dgrad = (torch.randn(4, 6, generator=generator, dtype=dtype) for _ in range(4))
    grad, dgrad = (t.narrow(dim, 0, t.shape[dim] // 2) for t in (grad, dgrad))
    out, grad_x = aten.glu(x, dim), aten.glu_backward(grad, x, dim)
    check(aten.glu_jvp.default, out, x, dx, dim)
    check(aten.glu_backward_jvp.default, grad_x, grad, x, dgrad, dx, dim, rtol=1e-5, atol=1e-6)
