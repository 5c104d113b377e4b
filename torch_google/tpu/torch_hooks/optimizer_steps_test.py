# SPDX-License-Identifier: Apache-2.0
"""Tests that optimizers do not load Dynamo, and that its import restores torch's own classes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_START = """
import sys, torch
from torch_google.tpu import autoload
optimizers = (torch.optim.SGD, torch.optim.AdamW)
theirs = {kind: kind.step for kind in optimizers}
patch = torch.optim.Optimizer._patch_step_function
autoload()

def train(kind, **options):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = kind(model.parameters(), lr=0.1, **options)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        schedule.step()
    assert torch.is_grad_enabled()
    return optimizer, model.weight.detach().clone()

def is_loaded():
    return "torch._dynamo" in sys.modules
"""


def _run(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _START + program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.full
def test_steps_load_no_dynamo_and_are_the_same_as_with_it() -> None:
    program = """
torch.tpu.init()
without = {kind: train(kind, weight_decay=0.1)[1] for kind in optimizers}
print(is_loaded())
import torch._dynamo
for kind in optimizers:
    torch.testing.assert_close(without[kind], train(kind, weight_decay=0.1)[1])
"""
    assert _run(program) == ["False"]


@pytest.mark.full
def test_with_dynamo_classes_are_as_torch_has_made_them() -> None:
    program = """
torch.tpu.init()
optimizer, _ = train(torch.optim.SGD)
bound = optimizer.step
print(is_loaded(), torch.optim.Optimizer._patch_step_function is patch)
import torch._dynamo.config
print(is_loaded(), torch.optim.Optimizer._patch_step_function is patch)
print(torch.optim.SGD.step.__wrapped__ is theirs[torch.optim.SGD], torch.optim.SGD.step.hooked)
print(torch.optim.AdamW.step is theirs[torch.optim.AdamW])
bound()
optimizer, _ = train(torch.optim.SGD)
print(torch.optim.SGD.add_param_group.__wrapped__.__dynamo_disable._torchdynamo_disable)
print(any("torch_hooks" in type(finder).__module__ for finder in sys.meta_path))
"""
    assert _run(program) == ["False False", "True True", "True True", "True", "True", "False"]


@pytest.mark.full
def test_where_dynamo_was_first_nothing_changes() -> None:
    program = """
import torch._dynamo
torch.tpu.init()
print(torch.optim.Optimizer._patch_step_function is patch)
"""
    assert _run(program) == ["True"]


@pytest.mark.full
def test_a_compiled_step_after_an_eager_one() -> None:
    program = """
torch.tpu.init()
optimizer, before = train(torch.optim.SGD)
parameter = optimizer.param_groups[0]["params"][0]
parameter.grad = torch.ones_like(parameter)
torch.compile(optimizer.step, backend="eager")()
torch.testing.assert_close(parameter.detach(), before - optimizer.param_groups[0]["lr"])
print(is_loaded())
"""
    assert _run(program) == ["True"]
