# SPDX-License-Identifier: Apache-2.0
"""Hooks, checkpointing and other autograd features behave as on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)


def random_tensor(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


def test_hooks_see_what_they_see_on_the_cpu() -> None:
    assert watch("tpu") == watch("cpu")


def watch(device: str) -> list[Any]:
    calls: list[Any] = []

    def note(event: str, *tensors: torch.Tensor | None) -> None:
        for tensor in tensors:
            assert tensor is None or tensor.device.type == device
            calls.append((event, None if tensor is None else [round(v, 3) for v in flat(tensor)]))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)).to(device)
    model[0].register_forward_pre_hook(lambda module, args: note("pre", *args))
    model[0].register_forward_hook(lambda module, args, result: result * 2)
    model[1].register_forward_hook(lambda module, args, result: note("forward", *args, result))
    model[1].register_full_backward_pre_hook(lambda module, grads: note("backward pre", *grads))
    model[1].register_full_backward_hook(lambda module, into, out: note("backward", *into, *out))
    model[0].bias.register_hook(lambda grad: grad * 0)
    model[2].bias.register_post_accumulate_grad_hook(lambda p: note("accumulated", p, p.grad))
    x = random_tensor(2, 3).to(device).requires_grad_()
    result = model(x)
    result.register_hook(lambda grad: note("tensor", grad))
    assert result.grad_fn is not None
    result.grad_fn.register_hook(lambda into, out: note("node", *out))
    result.sum().backward()
    note("gradients", x.grad, *(parameter.grad for parameter in model.parameters()))
    return calls


def flat(tensor: torch.Tensor) -> list[float]:
    return [float(value) for value in tensor.detach().flatten().tolist()]


def test_saved_tensors_may_wait_on_the_host() -> None:
    x = random_tensor(3).to("tpu").requires_grad_()
    packed: list[str] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.device.type)
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to("tpu")):
        result = (x * x).sin()
    result.sum().backward()
    assert set(packed) == {"tpu"}
    with torch.autograd.graph.save_on_cpu():
        again = (x * x).sin()
    (gradient,) = torch.autograd.grad(again.sum(), x)
    assert x.grad is not None
    torch.testing.assert_close(x.grad, gradient)
    expected = 2 * random_tensor(3) * (random_tensor(3) ** 2).cos()
    torch.testing.assert_close(gradient.cpu(), expected)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("cast", [True, False])
def test_a_checkpoint_draws_the_same_numbers_again(reentrant: bool, cast: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.ReLU(), nn.Linear(32, 1)).to("tpu")
    x = random_tensor(5, 4).to("tpu").requires_grad_()
    gradients = []
    for call in (model, functools.partial(checkpoint, model, use_reentrant=reentrant)):
        torch.manual_seed(7)
        x.grad = None
        with torch.autocast("tpu", enabled=cast):
            result = call(x)
        after = torch.tpu.get_rng_state()
        result.float().sum().backward()
        assert torch.equal(torch.tpu.get_rng_state(), after)
        assert x.grad is not None
        gradients.append(x.grad.cpu())
    torch.testing.assert_close(*gradients)


def test_a_checkpoint_that_keeps_no_state_draws_others() -> None:
    x = torch.ones(64, device="tpu", requires_grad=True)
    torch.manual_seed(7)
    result = checkpoint(nn.functional.dropout, x, use_reentrant=False, preserve_rng_state=False)
    assert isinstance(result, torch.Tensor)
    mask = result.detach().cpu() != 0
    result.sum().backward()
    assert x.grad is not None
    assert not torch.equal(x.grad.cpu() != 0, mask)


def test_checkpoints_of_parts_and_by_operator() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))).to("tpu")
    x = random_tensor(2, 4).to("tpu").requires_grad_()
    (expected,) = torch.autograd.grad(model(x).square().sum(), x)
    parts = checkpoint_sequential(model, 2, x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(parts.square().sum(), x)
    torch.testing.assert_close(gradient, expected)
    saved: list[Any] = []

    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        if op != torch.ops.aten.addmm.default:
            return CheckpointPolicy.PREFER_RECOMPUTE
        saved.append(op)
        return CheckpointPolicy.MUST_SAVE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    result = checkpoint(model, x, use_reentrant=False, context_fn=contexts)
    assert isinstance(result, torch.Tensor)
    (gradient,) = torch.autograd.grad(result.square().sum(), x)
    torch.testing.assert_close(gradient, expected)
    assert len(saved) >= 4


def test_anomalies_are_named() -> None:
    x = -torch.ones(2, device="tpu", requires_grad=True)
    with (
        torch.autograd.detect_anomaly(check_nan=True),
        pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        torch.sqrt(x).sum().backward()


def test_functions_of_ones_own() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    x = random_tensor(3).to("tpu").requires_grad_()
    Cube.apply(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), 3 * random_tensor(3) ** 2)


def test_a_write_to_what_is_still_needed_is_found() -> None:
    x = random_tensor(3).to("tpu").requires_grad_()
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3)),
        (lambda: nn.BatchNorm2d(4).eval(), (2, 4, 3, 3)),
        (lambda: nn.Bilinear(4, 4, 2), (3, 4)),
        (lambda: nn.Conv2d(4, 2, 3), (2, 4, 5, 5)),
        (lambda: nn.ConvTranspose2d(4, 2, 3), (2, 4, 5, 5)),
        (lambda: nn.GRU(4, 3), (2, 2, 4)),
        (lambda: nn.GroupNorm(2, 4), (2, 4, 3)),
        (lambda: nn.InstanceNorm1d(4, affine=True), (2, 4, 3)),
        (lambda: nn.LSTM(4, 3), (2, 2, 4)),
        (lambda: nn.LayerNorm(4), (2, 4)),
        (lambda: nn.Linear(4, 3), (2, 4)),
        (lambda: nn.MultiheadAttention(4, 2), (2, 4)),
        (lambda: nn.PReLU(4), (2, 4)),
        (lambda: nn.RMSNorm(4), (2, 4)),
    ],
)
def test_gradients_of_some_and_not_of_others(
    layer: Callable[[], nn.Module], sizes: tuple[int, ...]
) -> None:
    results = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        module = layer().to(device)
        inputs = 3 if isinstance(module, nn.MultiheadAttention) else 1
        inputs = 2 if isinstance(module, nn.Bilinear) else inputs
        tensors = [torch.randn(sizes).to(device) for _ in range(inputs)]
        leaves = [*module.parameters(), tensors[0]]
        gradients: list[torch.Tensor] = []
        # Compute gradients only for the input, then for all parameters, then for each parameter
        # alone.
        for selected in (leaves[-1:], leaves[:-1], *([leaf] for leaf in leaves[:-1])):
            for leaf in leaves:
                leaf.requires_grad_(any(leaf is one for one in selected))
            result = module(*tensors)
            result = result[0] if isinstance(result, tuple) else result
            gradients += torch.autograd.grad((result * result.sin()).sum(), selected)
        results.append(gradients)
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
