# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009, PT027 - torch's own TestCase compares tensors, even in nested structures
"""Modules work on tpu in torch's device-generic test framework, as in torch's own test files.

As another project's test suite would, these tests refer to the device only by its name.
"""

from __future__ import annotations

import copy
import inspect
import io
from typing import Any

import torch
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast,
    instantiate_device_type_tests,
)
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db, modules
from torch.testing._internal.common_utils import TestCase, gradcheck, noncontiguous_like
from torch.utils import _pytree as pytree

# One or two modules of each kind, enough to test the framework. gate_test.py covers all modules.
_CHOSEN = {
    "nn.BatchNorm2d",
    "nn.Bilinear",
    "nn.Conv2d",
    "nn.CrossEntropyLoss",
    "nn.Embedding",
    "nn.GELU",
    "nn.GroupNorm",
    "nn.LSTM",
    "nn.LayerNorm",
    "nn.Linear",
    "nn.MaxPool2d",
    "nn.MultiheadAttention",
    "nn.TransformerEncoderLayer",
}
_TWICE = {
    "nn.Conv1d",
    "nn.GELU",
    "nn.GroupNorm",
    "nn.LayerNorm",
    "nn.Linear",
    "nn.MSELoss",
    "nn.Softmax",
}
_SMALL = [info for info in module_db if info.name in _CHOSEN]
_DIFFERENTIATED = [info for info in module_db if info.name in _TWICE]
_REFUSING = [info for info in module_db if info.module_error_inputs_func]


def inputs(info: Any, device: str, dtype: torch.dtype, training: bool) -> list[Any]:
    samples = info.module_inputs_func(
        info, device=device, dtype=dtype, requires_grad=True, training=training
    )
    return list(samples)[:2]


class TestModules(TestCase):
    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_forward_and_factory_arguments(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for sample in inputs(module_info, device, dtype, training):
            args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
            module = module_info.module_cls(*args, **kwargs, **_factory(module_info, device, dtype))
            module.to(device).train(training)
            result = module(*sample.forward_input.args, **sample.forward_input.kwargs)
            leaves = torch.utils._pytree.tree_leaves(result)
            for leaf in [*leaves, *module.parameters(), *module.buffers()]:
                if isinstance(leaf, torch.Tensor):
                    self.assertEqual(leaf.device.type, torch.device(device).type)
            if sample.reference_fn is not None:
                expected = sample.reference_fn(
                    module, *sample.forward_input.args, **sample.forward_input.kwargs
                )
                self.assertEqual(result, expected)

    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_save_load(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = inputs(module_info, device, dtype, training)[0]
        torch.manual_seed(0)
        module = module_info.module_cls(
            *sample.constructor_input.args, **sample.constructor_input.kwargs
        )
        module.to(device).train(training)
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        self.assertEqual(loaded.state_dict(), module.state_dict())

    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_inputs_that_do_not_lie_in_order(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = inputs(module_info, device, dtype, training)[0]
        module = _on(device, module_info, sample, training)
        arguments = (sample.forward_input.args, sample.forward_input.kwargs)
        apart = pytree.tree_map_only(
            torch.Tensor, lambda x: noncontiguous_like(x) if x.numel() > 1 else x, arguments
        )
        results = [_results_and_gradients(module, *each) for each in (arguments, apart)]
        self.assertEqual(results[1], results[0])

    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_parameters_travel_with_their_gradients(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = inputs(module_info, device, dtype, training)[0]
        for swap in (False, True):
            module = _on("cpu", module_info, sample, training)
            for parameter in module.parameters():
                parameter.grad = torch.ones_like(parameter)
            before = list(module.parameters())
            torch.__future__.set_swap_module_params_on_conversion(swap)
            self.addCleanup(torch.__future__.set_swap_module_params_on_conversion, False)
            values = [parameter.detach().clone() for parameter in before]
            for target in (device, "cpu"):
                module.to(target)
                for parameter, value in zip(module.parameters(), values, strict=True):
                    self.assertEqual(parameter.device.type, torch.device(target).type)
                    assert parameter.grad is not None
                    self.assertEqual(parameter.grad, torch.ones_like(parameter))
                    self.assertEqual(parameter, value)
            if swap:
                self.assertTrue(
                    all(x is y for x, y in zip(before, module.parameters(), strict=True))
                )

    @deviceCountAtLeast(2)
    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_from_one_device_to_another(
        self, devices: list[str], dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = inputs(module_info, "cpu", dtype, training)[0]
        module, results = _on("cpu", module_info, sample, training), []
        for target in devices[:2]:
            # Use a new copy for each device, because a call changes the running statistics.
            placed = copy.deepcopy(module).to(target)
            args, kwargs = pytree.tree_map_only(
                torch.Tensor,
                lambda x, target=target: x.detach().to(target).requires_grad_(x.requires_grad),
                (sample.forward_input.args, sample.forward_input.kwargs),
            )
            results.append(_results_and_gradients(placed, args, kwargs))
            for leaf in [*pytree.tree_leaves(results[-1]), *placed.state_dict().values()]:
                if isinstance(leaf, torch.Tensor):
                    self.assertEqual(leaf.device, torch.device(target))
        self.assertEqual(results[0], results[1])
        module.to(devices[1]).to(devices[0])
        for leaf in module.state_dict().values():
            self.assertEqual(leaf.device, torch.device(devices[0]))

    @modules(_SMALL, allowed_dtypes=[torch.float32])
    def test_half_precision_by_conversion(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = inputs(module_info, device, dtype, training)[0]
        module = _on(device, module_info, sample, training).bfloat16()
        arguments = pytree.tree_map_only(
            torch.Tensor,
            lambda x: x.detach().bfloat16() if x.is_floating_point() else x,
            (sample.forward_input.args, sample.forward_input.kwargs),
        )
        result = module(*arguments[0], **arguments[1])
        expected = copy.deepcopy(module).float()(
            *sample.forward_input.args, **sample.forward_input.kwargs
        )
        narrow, wide = pytree.tree_leaves(result), pytree.tree_leaves(expected)
        for mine, other in zip(narrow, wide, strict=True):
            if isinstance(mine, torch.Tensor) and mine.is_floating_point():
                self.assertEqual(mine.dtype, torch.bfloat16)
                self.assertEqual(mine.float(), other, rtol=0.05, atol=0.05)

    @modules(_DIFFERENTIATED, allowed_dtypes=[torch.float64])
    def test_gradients_of_both_orders(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = inputs(module_info, device, dtype, training)[0]
        module = _on(device, module_info, sample, training)
        arguments = (sample.forward_input.args, sample.forward_input.kwargs)
        leaves, spec = pytree.tree_flatten(arguments)
        where = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]

        def call(*inputs: torch.Tensor) -> Any:
            filled = list(leaves)
            for i, leaf in zip(where, inputs, strict=False):
                filled[i] = leaf
            args, kwargs = pytree.tree_unflatten(filled, spec)
            return module(*args, **kwargs)

        # Also check the gradients of the parameters. `call` need not pass them on: gradcheck
        # perturbs them in place, and the module reads them.
        checked = (*(leaves[i] for i in where), *module.parameters())
        self.assertTrue(gradcheck(call, checked, fast_mode=True))
        self.assertTrue(torch.autograd.gradgradcheck(call, checked, fast_mode=True))

    @modules(_REFUSING, allowed_dtypes=[torch.float32])
    def test_errors(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        refused = module_info.module_error_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        )
        for case in list(refused)[:6]:
            sample = case.module_error_input
            args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
            if case.error_on == ModuleErrorEnum.CONSTRUCTION_ERROR:
                with self.assertRaisesRegex(case.error_type, case.error_regex):
                    module_info.module_cls(*args, **kwargs)
                continue
            module = module_info.module_cls(*args, **kwargs).to(device)
            with self.assertRaisesRegex(case.error_type, case.error_regex):
                module(*sample.forward_input.args, **sample.forward_input.kwargs)


def _on(device: str, info: Any, sample: Any, training: bool) -> torch.nn.Module:
    torch.manual_seed(0)
    constructed = sample.constructor_input
    # Tensor arguments are already on the device, so parameters made from them are too.
    module = info.module_cls(*constructed.args, **constructed.kwargs)
    dtype = next(
        x.dtype
        for x in pytree.tree_leaves((sample.forward_input.args, sample.forward_input.kwargs))
        if isinstance(x, torch.Tensor) and (x.is_floating_point() or info.name == "nn.Embedding")
    )
    assert isinstance(module, torch.nn.Module)
    module.to(device, dtype if dtype.is_floating_point else None)
    return module.train(training)


def _results_and_gradients(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    result = module(*args, **kwargs)
    floats = [
        x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad
    ]
    parameters = list(module.parameters())
    if not floats or not parameters:
        return result
    total = sum((x * x).sum() for x in floats)
    assert isinstance(total, torch.Tensor)
    return result, torch.autograd.grad(total, parameters, allow_unused=True)


def _factory(info: Any, device: str, dtype: torch.dtype) -> dict[str, Any]:
    takes = "device" in inspect.signature(info.module_cls.__init__).parameters
    return {"device": device, "dtype": dtype} if takes else {}


instantiate_device_type_tests(TestModules, globals(), only_for=("privateuse1",))
