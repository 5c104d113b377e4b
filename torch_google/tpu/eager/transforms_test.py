# SPDX-License-Identifier: Apache-2.0
"""Test torch.func transforms, forward-mode derivatives and higher-order derivatives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import func, nn


def random_tensor(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


def curve(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x).sum()


@pytest.mark.parametrize(
    "call",
    [
        func.grad(curve),
        func.grad_and_value(curve),
        func.jacrev(torch.sin),
        func.jacfwd(torch.sin),
        func.hessian(curve),
        lambda x: func.jvp(torch.sin, (x,), (x,)),
        lambda x: func.vjp(torch.sin, x)[1](x),
        lambda x: func.linearize(torch.sin, x)[1](x),
        func.functionalize(lambda x: x.clone().add_(1).view(-1).mul_(2)),
        func.vmap(func.grad(lambda x: x * x)),
        func.vmap(curve),
    ],
)
def test_transforms_of_functions(call: Callable[[torch.Tensor], Any]) -> None:
    expected, actual = call(random_tensor(3)), call(random_tensor(3).to("tpu"))
    torch.testing.assert_close(actual, expected, check_device=False)


@pytest.mark.parametrize(
    ("call", "unbatched"),
    [
        (func.vmap(torch.mm), False),
        (func.vmap(torch.mm, in_dims=(0, None)), True),
        (func.vmap(lambda a, b: torch.softmax(a + b, -1), out_dims=1), False),
        (func.vmap(lambda a, b: torch.where(a > b, a, b).cumsum(0)), False),
        (func.vmap(func.vmap(torch.dot)), False),
        (func.vmap(lambda a, b: a[torch.argsort(b[0])]), False),
        (func.vmap(lambda a, b: nn.functional.layer_norm(a @ b, (3,)), chunk_size=2), False),
    ],
)
def test_batches(call: Callable[..., Any], unbatched: bool) -> None:
    a, b = random_tensor(4, 3, 3), random_tensor(4, 3, 3).flip(0)
    b = b[0] if unbatched else b
    torch.testing.assert_close(call(a.to("tpu"), b.to("tpu")), call(a, b), check_device=False)


def test_random_numbers_in_batches() -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(3, device="tpu")

    x = torch.zeros(2, 3, device="tpu")
    one, other = func.vmap(draw, randomness="different")(x).tolist()
    assert one != other
    one, other = func.vmap(draw, randomness="same")(x).tolist()
    assert one == other
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(draw)(x)


def test_gradients_of_each_sample() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(32, 2))
    inputs = random_tensor(3, 1, 6, 6)
    gradients = []
    for device in ("cpu", "tpu"):
        placed = copy.deepcopy(model).to(device)
        parameters = {n: p.detach() for n, p in placed.named_parameters()}

        def loss(
            parameters: dict[str, torch.Tensor], x: torch.Tensor, placed: Any = placed
        ) -> torch.Tensor:
            result = func.functional_call(placed, parameters, (x[None],))
            assert isinstance(result, torch.Tensor)
            return result.square().sum()

        each = func.vmap(func.grad(loss), in_dims=(None, 0))
        gradients.append(each(parameters, inputs.to(device)))
    torch.testing.assert_close(gradients[1], gradients[0], check_device=False)


def test_ensembles() -> None:
    torch.manual_seed(0)
    models = [nn.Linear(3, 2).to("tpu") for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def call(parameters: Any, buffers: Any, x: torch.Tensor) -> Any:
        return func.functional_call(base, (parameters, buffers), (x,))

    x = random_tensor(5, 3).to("tpu")
    results = func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    expected = torch.stack([model(x) for model in models])
    torch.testing.assert_close(results, expected)


def test_forward_mode() -> None:
    tangents = []
    for device in ("cpu", "tpu"):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(
                random_tensor(3).to(device), torch.ones(3).to(device)
            )
            tangents.append(torch.autograd.forward_ad.unpack_dual((dual * dual).exp()).tangent)
    torch.testing.assert_close(tangents[1], tangents[0], check_device=False)


@pytest.mark.full
def test_derivatives_of_second_order() -> None:
    x = random_tensor(3).double().to("tpu").requires_grad_()
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, 6 * x.detach())
    assert torch.autograd.gradcheck(lambda x: x.sin() * x, (x,))
    assert torch.autograd.gradgradcheck(lambda x: x.sin() * x, (x,))
