# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009, PT027 - torch's own TestCase compares tensors and structures of them
"""Suites by torch's own machinery for tests of every device, as its own test files are made.

It knows the device by its name alone: what stands here is what another project's suite would find.
"""

from __future__ import annotations

import copy
import io
from typing import Any

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db, modules
from torch.testing._internal.common_optimizers import (
    _get_optim_inputs_including_global_cliquey_kwargs,
    optim_db,
    optims,
)
from torch.testing._internal.common_utils import TestCase, gradcheck

# Of each kind one or two: this is about the machinery, gate_test.py has them all.
_CHOSEN = {
    "nn.Linear",
    "nn.Conv2d",
    "nn.BatchNorm2d",
    "nn.LSTM",
    "nn.MultiheadAttention",
    "nn.GELU",
}
_SMALL = [info for info in module_db if info.name in _CHOSEN]
_REFUSING = [info for info in module_db if info.module_error_inputs_func]
_OPTIMIZERS = [info for info in optim_db if info.name in {"SGD", "AdamW", "RMSprop"}]


def inputs(info: Any, device: str, dtype: torch.dtype, training: bool) -> list[Any]:
    made = info.module_inputs_func(
        info, device=device, dtype=dtype, requires_grad=True, training=training
    )
    return list(made)[:2]


class TestModules(TestCase):
    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_forward_and_factory_arguments(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for made in inputs(module_info, device, dtype, training):
            args, kwargs = made.constructor_input.args, made.constructor_input.kwargs
            module = module_info.module_cls(*args, **kwargs, **_factory(module_info, device, dtype))
            module.to(device).train(training)
            result = module(*made.forward_input.args, **made.forward_input.kwargs)
            leaves = torch.utils._pytree.tree_leaves(result)
            for leaf in [*leaves, *module.parameters(), *module.buffers()]:
                if isinstance(leaf, torch.Tensor):
                    self.assertEqual(leaf.device.type, torch.device(device).type)
            if made.reference_fn is not None:
                expected = made.reference_fn(
                    module, *made.forward_input.args, **made.forward_input.kwargs
                )
                self.assertEqual(result, expected)

    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_save_load(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        made = inputs(module_info, device, dtype, training)[0]
        torch.manual_seed(0)
        module = module_info.module_cls(
            *made.constructor_input.args, **made.constructor_input.kwargs
        )
        module.to(device).train(training)
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        self.assertEqual(loaded.state_dict(), module.state_dict())

    @modules(
        [info for info in _SMALL if info.name in {"nn.Linear", "nn.GELU"}],
        allowed_dtypes=[torch.float64],
    )
    def test_gradients_of_both_orders(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        made = inputs(module_info, device, dtype, training)[0]
        module = module_info.module_cls(
            *made.constructor_input.args, **made.constructor_input.kwargs
        )
        module.to(device, dtype)
        forward = made.forward_input
        x: torch.Tensor = (*forward.args, *forward.kwargs.values())[0]
        self.assertTrue(gradcheck(module, (x,)))
        self.assertTrue(torch.autograd.gradgradcheck(module, (x,)))

    @modules(_REFUSING, allowed_dtypes=[torch.float32])
    def test_errors(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        refused = module_info.module_error_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        )
        for case in list(refused)[:6]:
            made = case.module_error_input
            args, kwargs = made.constructor_input.args, made.constructor_input.kwargs
            if case.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR:
                with self.assertRaisesRegex(case.error_type, case.error_regex):
                    module_info.module_cls(*args, **kwargs)
                continue
            module = module_info.module_cls(*args, **kwargs).to(device)
            with self.assertRaisesRegex(case.error_type, case.error_regex):
                module(*made.forward_input.args, **made.forward_input.kwargs)


class TestOptimizers(TestCase):
    @optims(_OPTIMIZERS, dtypes=[torch.float32])
    def test_every_implementation_gives_the_same(
        self, device: str, dtype: torch.dtype, optim_info: Any
    ) -> None:
        configurations = _get_optim_inputs_including_global_cliquey_kwargs(
            device, dtype, optim_info, skip=("differentiable",)
        )
        self.assertTrue(any(made.kwargs.get("foreach") for made in configurations))
        found: dict[str, list[Any]] = {}
        for made in configurations:
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 3, dtype=dtype)
            x = torch.ones(2, 4, dtype=dtype, device=device)
            model.to(device)
            kwargs = copy.deepcopy(made.kwargs)
            optimizer = optim_info.optim_cls(model.parameters(), **kwargs)
            for _ in range(2):
                optimizer.zero_grad()
                model(x).square().sum().backward()
                optimizer.step()
            found.setdefault(made.desc.partition(" & ")[0], []).append(list(model.parameters()))
        for name, results in found.items():
            for result in results[1:]:
                self.assertEqual(result, results[0], msg=name)


def _factory(info: Any, device: str, dtype: torch.dtype) -> dict[str, Any]:
    takes = info.name not in {"nn.GELU"}
    return {"device": device, "dtype": dtype} if takes else {}


instantiate_device_type_tests(TestModules, globals(), only_for=("privateuse1",))
instantiate_device_type_tests(TestOptimizers, globals(), only_for=("privateuse1",))
