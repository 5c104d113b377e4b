# SPDX-License-Identifier: Apache-2.0
"""Tests torch's training utilities: torch.nn.utils, schedulers, averaged models, lazy modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from torch.optim import lr_scheduler, swa_utils

DEVICES = ("cpu", "tpu")


def random_tensor(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_gradients_are_clipped(foreach: bool | None, norm: float) -> None:
    results = []
    for device in DEVICES:
        parameters = [nn.Parameter(random_tensor(*size).to(device)) for size in ((3, 4), (5,))]
        for parameter in parameters:
            parameter.grad = parameter.detach() * 2
        total = nn.utils.clip_grad_norm_(parameters, 0.5, norm_type=norm, foreach=foreach)
        assert total.device.type == device
        by_norm = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]
        nn.utils.clip_grad_value_(parameters, 0.01, foreach=foreach)
        results.append([total, by_norm, [parameter.grad for parameter in parameters]])
    torch.testing.assert_close(results[1], results[0], check_device=False)


def test_a_norm_that_is_not_finite_is_refused() -> None:
    parameter = nn.Parameter(torch.ones(2, device="tpu"))
    parameter.grad = torch.tensor([1.0, float("nan")]).to("tpu")
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)


def test_parameters_as_one_vector() -> None:
    model = nn.Linear(3, 2).to("tpu")
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector * 2, model.parameters())
    torch.testing.assert_close(
        nn.utils.parameters_to_vector(model.parameters()).cpu(), vector.cpu() * 2
    )


@pytest.mark.parametrize(
    "parametrize",
    [
        parametrizations.weight_norm,
        lambda module: parametrizations.weight_norm(module, dim=1),
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        lambda module: parametrizations.orthogonal(module, orthogonal_map="cayley"),
        lambda module: parametrizations.orthogonal(module, orthogonal_map="householder"),
        nn.utils.spectral_norm,
    ],
)
def test_parametrized_weights(parametrize: Callable[[nn.Module], nn.Module]) -> None:
    results = []
    for device in DEVICES:
        torch.manual_seed(0)
        model = parametrize(nn.Linear(4, 4)).to(device)
        result = model(random_tensor(2, 4).to(device))
        result.square().sum().backward()
        results.append([result, [parameter.grad for parameter in model.parameters()]])
    torch.testing.assert_close(results[1], results[0], check_device=False, rtol=1e-4, atol=1e-4)


def test_normal_layers_are_fused() -> None:
    convolution, norm = nn.Conv2d(1, 2, 3).to("tpu").eval(), nn.BatchNorm2d(2).to("tpu").eval()
    assert norm.running_mean is not None
    norm.running_mean.add_(0.5)
    fused = nn.utils.fuse_conv_bn_eval(convolution, norm)
    x = random_tensor(1, 1, 5, 5).to("tpu")
    torch.testing.assert_close(fused(x), norm(convolution(x)))


def test_weights_are_pruned() -> None:
    weights = []
    for device in DEVICES:
        torch.manual_seed(0)
        model = nn.Linear(4, 4).to(device)
        prune.l1_unstructured(model, "weight", amount=0.5)
        prune.ln_structured(model, "weight", amount=1, n=2, dim=0)
        model(random_tensor(1, 4).to(device)).sum().backward()
        prune.remove(model, "weight")
        weights.append(model.weight)
    torch.testing.assert_close(weights[1], weights[0], check_device=False)


@pytest.mark.parametrize(
    "schedule",
    [
        lambda optimizer: lr_scheduler.StepLR(optimizer, 2),
        lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 5),
        lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10),
        lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, patience=0),
        lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.01, 0.1),
        lambda optimizer: lr_scheduler.SequentialLR(
            optimizer,
            [lr_scheduler.LinearLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)],
            [2],
        ),
    ],
)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_schedules_compile_nothing(schedule: Callable[..., Any], as_tensor: bool) -> None:
    results = []
    for device in DEVICES:
        weight = torch.ones(3, device=device, requires_grad=True)
        rate = torch.tensor(0.1, device=device) if as_tensor else 0.1
        optimizer = torch.optim.SGD([weight], lr=rate, momentum=0.9, foreach=not as_tensor)
        scheduler = schedule(optimizer)
        for step in range(6):
            if step == 3:
                torch.tpu.reset_metrics()
            loss = weight.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
                scheduler.step(loss.item())
            else:
                scheduler.step()
        results.append([weight, [float(rate) for rate in scheduler.get_last_lr()]])
    torch.testing.assert_close(results[1], results[0], check_device=False)
    if not as_tensor:
        assert torch.tpu.metrics().compiles == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)},
        {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
        {"avg_fn": swa_utils.get_ema_avg_fn(0.9), "use_buffers": True},
    ],
)
def test_averages_of_models(options: dict[str, Any]) -> None:
    results = []
    for device in DEVICES:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(device)
        average = swa_utils.AveragedModel(model, **options)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = swa_utils.SWALR(optimizer, 0.05)
        for _ in range(3):
            optimizer.zero_grad()
            model(random_tensor(5, 3).to(device)).sin().sum().backward()
            optimizer.step()
            scheduler.step()
            average.update_parameters(model)
        swa_utils.update_bn([random_tensor(5, 3)], average, device=torch.device(device))
        results.append(dict(average.state_dict()))
    torch.testing.assert_close(results[1], results[0], check_device=False, rtol=1e-4, atol=1e-5)


def test_numbers_that_are_tensors_on_the_host_compile_nothing() -> None:
    weight = torch.ones(3, device="tpu", requires_grad=True)
    betas = (torch.tensor(0.9), torch.tensor(0.99))
    optimizer = torch.optim.Adam([weight], torch.tensor(0.1), betas, foreach=False)
    for step in range(14):
        if step == 12:
            torch.tpu.reset_metrics()
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    assert torch.tpu.metrics().compiles == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lazy_modules_move_before_they_have_a_shape(dtype: torch.dtype) -> None:
    module = nn.LazyConv1d(3, 3).to("tpu").to(dtype)
    result = module(torch.ones(2, 4, 8, device="tpu", dtype=dtype))
    assert module.weight.shape == (3, 4, 3)
    assert (result.dtype, result.shape) == (dtype, (2, 3, 6))
