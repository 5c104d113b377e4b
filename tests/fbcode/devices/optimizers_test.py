# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - torch's own TestCase compares tensors, even in nested structures
"""Test a shard of the optimizers in optim_db, on every device that torch's framework finds."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase

from tests.fbcode.devices import known
from tests.fbcode.sample import sampled

_DENSE = [info for info in optim_db if not info.only_supports_sparse_grads]
_OPTIMIZERS = sampled(_DENSE, shards=2)
_CONFIGURATIONS = 3


class TestOptimizers(TestCase):
    @optims(_OPTIMIZERS, dtypes=[torch.float32])
    def test_makes_the_loss_smaller(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        model, closure = _problem(device, dtype)
        optimizer = optim_info.optim_cls(model.parameters())
        before = closure().item()
        for _ in range(20):
            optimizer.step(closure)
        self.assertLess(closure().item(), before)
        for parameter in model.parameters():
            self.assertEqual(parameter.device.type, torch.device(device).type)

    @optims(_OPTIMIZERS, dtypes=[torch.float32])
    def test_agrees_with_the_cpu(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        for configuration in _configurations(optim_info, device):
            results = []
            for target in (device, "cpu"):
                model, closure = _problem(target, dtype)
                optimizer = optim_info.optim_cls(model.parameters(), **configuration.kwargs)
                for _ in range(3):
                    optimizer.step(closure)
                results.append([parameter.detach().cpu() for parameter in model.parameters()])
            self.assertEqual(results[0], results[1], msg=configuration.desc, rtol=1e-3, atol=1e-4)

    @optims(_OPTIMIZERS, dtypes=[torch.float32])
    def test_goes_on_where_it_was_saved(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        for configuration in _configurations(optim_info, device):
            model, closure = _problem(device, dtype)
            optimizer = optim_info.optim_cls(model.parameters(), **configuration.kwargs)
            for _ in range(2):
                optimizer.step(closure)
            file = io.BytesIO()
            torch.save([model.state_dict(), optimizer.state_dict()], file)
            file.seek(0)
            weights, state = torch.load(file)
            again, closure_again = _problem(device, dtype)
            again.load_state_dict(weights)
            resumed = optim_info.optim_cls(again.parameters(), **configuration.kwargs)
            resumed.load_state_dict(state)
            optimizer.step(closure)
            resumed.step(closure_again)
            self.assertEqual(again.state_dict(), model.state_dict(), msg=configuration.desc)


def _configurations(info: Any, device: str) -> list[Any]:
    """Return the first few non-fused configurations in torch's table for an optimizer."""
    configurations = (
        each for each in info.optim_inputs_func(device="cpu") if not each.kwargs.get("fused")
    )
    return list(itertools.islice(configurations, _CONFIGURATIONS))


def _problem(device: str, dtype: torch.dtype) -> tuple[torch.nn.Module, Callable[[], torch.Tensor]]:
    """Return a small model on `device`, and a closure that computes its loss and gradients."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x, y = torch.randn(16, 4, dtype=dtype), torch.randn(16, 2, dtype=dtype)
    model.to(device, dtype)
    x, y = x.to(device), y.to(device)

    def closure() -> torch.Tensor:
        with torch.enable_grad():
            model.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
        return loss.detach()

    return model, closure


known.instantiate(TestOptimizers, globals())
