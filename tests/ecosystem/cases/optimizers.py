# SPDX-License-Identifier: Apache-2.0
"""Test cases for optimizers, their losses, and averages of weights."""

from __future__ import annotations

import io
from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


def _mlp(*sizes: int) -> torch.nn.Sequential:
    first, hidden, last = sizes
    return torch.nn.Sequential(
        torch.nn.Linear(first, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, last)
    )


def _by_name(run: Run, name: str, **settings: Any) -> Any:
    import pytorch_optimizer

    return run.optimize(lambda p: getattr(pytorch_optimizer, name)(p, lr=1e-2, **settings))


@case("pytorch_optimizer")
def shampoo(run: Run) -> Any:
    return _by_name(run, "Shampoo", preconditioning_compute_steps=1)


@case("pytorch_optimizer")
def two_momenta(run: Run) -> Any:
    return _by_name(run, "AdEMAMix")


@case("pytorch_optimizer")
def sharpness_aware(run: Run) -> Any:
    from pytorch_optimizer import SAM

    model = run.put(_mlp(4, 8, 2))
    inputs = run.put(torch.randn(5, 4))
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1)
    first_step, second_step = map(run.compiled, (optimizer.first_step, optimizer.second_step))
    for _ in range(2):
        model(inputs).square().mean().backward()
        first_step(zero_grad=True)
        model(inputs).square().mean().backward()
        second_step(zero_grad=True)
    return dict(model.named_parameters())


@case("pytorch_optimizer")
def adafactor(run: Run) -> Any:
    return _by_name(run, "AdaFactor")


@case("pytorch_optimizer")
def tiger(run: Run) -> Any:
    return _by_name(run, "Tiger")


@case("pytorch_optimizer")
def ranger21(run: Run) -> Any:
    return _by_name(run, "Ranger21", num_iterations=10)


@case("pytorch_optimizer")
def loss_functions(run: Run) -> Any:
    from pytorch_optimizer import loss

    scores, target = run.put([torch.randn(6), torch.randint(0, 2, (6,)).float()])
    scores.requires_grad_()

    def apply(scores: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        images = scores.reshape(1, 1, 2, 3), target.reshape(1, 1, 2, 3)
        return [
            loss.BCEFocalLoss()(scores, target), loss.SoftF1Loss()(scores.sigmoid(), target),
            loss.JaccardLoss("binary")(*images), loss.DiceLoss("binary")(*images),
            loss.LovaszHingeLoss()(images[0][:, 0], images[1][:, 0]),
        ]  # fmt: skip

    values = run.compiled(apply)(scores, target)
    return values, torch.autograd.grad(sum(value.sum() for value in values), scores)


@case("torch_optimizer")
def quasi_hyperbolic(run: Run) -> Any:
    from torch_optimizer import QHAdam

    return run.optimize(lambda p: QHAdam(p, lr=1e-2))


@case("torch_optimizer")
def bounded_adam(run: Run) -> Any:
    from torch_optimizer import AdaBound

    return run.optimize(lambda p: AdaBound(p, lr=1e-2))


@case("schedulefree")
def schedule_free_adamw(run: Run) -> Any:
    from schedulefree import AdamWScheduleFree

    model = run.put(_mlp(4, 8, 2))
    optimizer = AdamWScheduleFree(model.parameters(), lr=0.01, weight_decay=0.1)
    step = run.compiled(optimizer.step)
    inputs = run.put(torch.randn(5, 4))
    optimizer.train()
    for _ in range(2):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        step()
    state = {key: dict(value) for key, value in optimizer.state_dict()["state"].items()}
    optimizer.eval()
    return dict(model.named_parameters()), state


@case("prodigyopt")
def resumed_prodigy(run: Run) -> Any:
    from prodigyopt import Prodigy

    model = run.put(_mlp(4, 8, 2))
    forward = run.compiled(model)
    inputs = run.put(torch.randn(5, 4))
    state = None
    for _ in range(2):
        optimizer = Prodigy(model.parameters(), lr=1.0, safeguard_warmup=True, weight_decay=0.1)
        if state is not None:
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
        forward(inputs).square().mean().backward()
        optimizer.step()
        state = optimizer.state_dict()
    return dict(model.named_parameters())


@case("torch_ema", modes=EAGER)
def saved_average(run: Run) -> Any:
    from torch_ema import ExponentialMovingAverage

    model = run.put(torch.nn.Linear(3, 2))
    average = ExponentialMovingAverage(model.parameters(), decay=0.9)
    with torch.no_grad():
        model.weight.mul_(2)
    average.update()
    file = io.BytesIO()
    torch.save(average.state_dict(), file)
    file.seek(0)
    other = ExponentialMovingAverage(model.parameters(), decay=0.5)
    other.load_state_dict(torch.load(file, weights_only=True))
    other.copy_to()
    return dict(model.named_parameters())
