# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009, PT027 - torch's own TestCase compares tensors, even in nested structures
"""Optimizers work on tpu in torch's device-generic test framework, as in torch's own test files."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_optimizers import (
    OptimizerErrorEnum,
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
    optims,
)
from torch.testing._internal.common_utils import TestCase

_DENSE = [info for info in optim_db if not info.only_supports_sparse_grads]
_STEPPING = [info for info in _DENSE if not info.step_requires_closure]
_SEVERAL = [info for info in _STEPPING if "foreach" in info.supported_impls]
_COMPLEX = [info for info in _STEPPING if info.supports_complex]


class TestOptimizers(TestCase):
    @optims(_SEVERAL, dtypes=[torch.float32])
    def test_every_implementation_gives_the_same(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        configurations = _get_optim_inputs_including_global_cliquey_kwargs(
            device, dtype, optim_info, skip=("differentiable",)
        )
        self.assertTrue(
            any(configuration.kwargs.get("foreach") for configuration in configurations)
        )
        parameters: dict[str, list[Any]] = {}
        for configuration in configurations:
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 3, dtype=dtype)
            x = torch.ones(2, 4, dtype=dtype, device=device)
            model.to(device)
            kwargs = copy.deepcopy(configuration.kwargs)
            optimizer = optim_info.optim_cls(model.parameters(), **kwargs)
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().sum().backward()
                optimizer.step()
            parameters.setdefault(configuration.desc.partition(" & ")[0], []).append(
                list(model.parameters())
            )
        for name, results in parameters.items():
            for result in results[1:]:
                self.assertEqual(result, results[0], msg=name)

    @optims(optim_db, dtypes=[torch.float32])
    def test_errors(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        for case in optim_info.optim_error_inputs_func(device=device, dtype=dtype):
            configuration = case.optimizer_error_input
            params = configuration.params
            if params is None:
                params = [torch.nn.Parameter(torch.ones(2, 2, device=device, dtype=dtype))]
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                with self.assertRaisesRegex(case.error_type, case.error_regex):
                    optimizer = optim_info.optim_cls(params, **configuration.kwargs)
                    if case.error_on is OptimizerErrorEnum.STEP_ERROR:
                        optimizer.step()

    @optims(_STEPPING, dtypes=[torch.float32])
    def test_groups(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        def train(target: str) -> Any:
            weight, late, unused = _parameters(target, dtype, 3)
            optimizer = optim_info.optim_cls([{"params": [weight], "lr": 0.5}], lr=0.01)
            _steps(optimizer, [weight], 1)
            optimizer.add_param_group({"params": [late, unused], "lr": 0.25})
            _steps(optimizer, [weight, late], 2)
            for group in optimizer.param_groups:
                group["lr"] *= 0.1
            _steps(optimizer, [weight, late], 1)
            return [weight, late, unused]

        self.assertEqual(train(device), train("cpu"), rtol=1e-4, atol=1e-5)

    @optims(_STEPPING, dtypes=[torch.float32])
    def test_hooks(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        (parameter,) = _parameters(device, dtype, 1)
        optimizer = optim_info.optim_cls([parameter])
        calls: list[Any] = []
        optimizer.register_step_pre_hook(
            lambda *_: calls.append(("before", parameter.detach().clone()))
        )
        handle = optimizer.register_step_post_hook(
            lambda *_: calls.append(("after", parameter.detach().clone()))
        )
        optimizer.register_state_dict_post_hook(lambda _, state: state | {"named": 1})
        start = parameter.detach().clone()
        _steps(optimizer, [parameter], 1)
        handle.remove()
        _steps(optimizer, [parameter], 1)
        self.assertEqual([name for name, _ in calls], ["before", "after", "before"])
        self.assertEqual(calls[0][1], start)
        self.assertEqual(calls[1][1], calls[2][1])
        self.assertNotEqual(calls[1][1], start)
        self.assertEqual(optimizer.state_dict()["named"], 1)

    @optims(_STEPPING, dtypes=[torch.float32])
    def test_a_copy_goes_on_by_itself(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        (parameter,) = _parameters(device, dtype, 1)
        optimizer = optim_info.optim_cls([parameter])
        _steps(optimizer, [parameter], 2)
        twin = copy.deepcopy(optimizer)
        (other,) = twin.param_groups[0]["params"]
        before = other.detach().clone()
        _steps(optimizer, [parameter], 1)
        self.assertEqual(other, before)
        _steps(twin, [other], 1)
        self.assertEqual(other, parameter)
        for one, two in zip(twin.state.values(), optimizer.state.values(), strict=True):
            self.assertEqual(one, two)

    @optims(_COMPLEX, dtypes=[torch.complex64])
    def test_complex_numbers_are_pairs(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        (parameter,) = _parameters(device, dtype, 1)
        pairs = torch.view_as_real(parameter.detach()).clone().requires_grad_()
        complex_optimizer, pair_optimizer = (
            optim_info.optim_cls([parameter]),
            optim_info.optim_cls([pairs]),
        )
        for _ in range(2):
            gradient = torch.randn(parameter.shape, dtype=dtype).to(device)
            parameter.grad, pairs.grad = gradient, torch.view_as_real(gradient).clone()
            complex_optimizer.step()
            pair_optimizer.step()
        self.assertEqual(torch.view_as_real(parameter), pairs)

    @optims(_SEVERAL, dtypes=[torch.float32])
    def test_lists_of_several_places_and_dtypes(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        results = []
        for foreach in (True, False):
            torch.manual_seed(0)
            drawn = [torch.randn(3, 2), torch.randn(4, dtype=torch.float64)]
            if optim_info.name != "Adafactor":  # Adafactor divides by the number of elements.
                drawn.append(torch.randn(0, 2))
            mixed = [x.to(target, copy=True) for target in (device, "cpu") for x in drawn]
            optimizer = optim_info.optim_cls([p.requires_grad_() for p in mixed], foreach=foreach)
            for step in range(2):
                for parameter in mixed:
                    parameter.grad = torch.full_like(parameter, step + 0.5)
                optimizer.step()
            self.assertEqual(mixed[: len(drawn)], mixed[len(drawn) :])
            results.append(mixed)
        self.assertEqual(results[0], results[1])

    @optims(_STEPPING, dtypes=[torch.float32])
    def test_schedules(self, device: str, dtype: torch.dtype, optim_info: Any) -> None:
        def train(target: str, schedule: Callable[..., Any]) -> Any:
            (parameter,) = _parameters(target, dtype, 1)
            optimizer = optim_info.optim_cls([parameter], lr=0.1)
            scheduler, rates = schedule(optimizer), []
            for _ in range(3):
                _steps(optimizer, [parameter], 1)
                loss = parameter.detach().square().sum()
                plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
                scheduler.step(*([loss] if plateau else []))
                rates.append(optimizer.param_groups[0]["lr"])
            return rates, parameter

        for schedules in optim_info.scheduler_inputs:
            for schedule in schedules:
                actual, expected = train(device, schedule), train("cpu", schedule)
                self.assertEqual(actual, expected, rtol=1e-4, atol=1e-5)

    @optims(_STEPPING, dtypes=[torch.float32])
    def test_half_precision_with_a_scaler(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        def train(target: str) -> Any:
            torch.manual_seed(0)
            kind = torch.device(target).type
            model = torch.nn.Sequential(
                torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 2, bias=False)
            ).to(target)
            optimizer = optim_info.optim_cls(model.parameters(), lr=0.01)
            scaler = torch.amp.GradScaler(kind, init_scale=256.0, growth_interval=3)
            x, scales, unchanged = torch.ones(3, 4).to(target), [], []
            for step in range(5):
                optimizer.zero_grad()
                with torch.autocast(kind, torch.bfloat16):
                    loss = model(x).square().mean()
                scaler.scale(loss).backward()
                if step == 2:  # Simulate an overflow; the scaler must skip the step.
                    next(model.parameters()).grad[0, 0] = float("inf")
                before = [p.detach().clone() for p in model.parameters()]
                scaler.step(optimizer)
                scaler.update()
                unchanged.append(all(map(torch.equal, before, model.parameters())))
                scales.append(scaler.get_scale())
            return scales, unchanged, list(model.parameters())

        scales, unchanged, parameters = train(device)
        self.assertEqual(scales, [256.0, 256.0, 128.0, 128.0, 128.0])
        self.assertEqual(unchanged, [False, False, True, False, False])
        self.assertEqual(parameters, train("cpu")[2], rtol=0.05, atol=0.02)


def _parameters(device: str, dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(3, 2, dtype=dtype).to(device).requires_grad_() for _ in range(count)]


def _steps(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], count: int) -> None:
    for _ in range(count):
        for i, parameter in enumerate(parameters):
            parameter.grad = (parameter.detach() + i) * 0.5
        optimizer.step()


instantiate_device_type_tests(TestOptimizers, globals(), only_for=("privateuse1",))
