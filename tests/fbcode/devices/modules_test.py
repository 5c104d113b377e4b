# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - torch's own TestCase compares tensors, even in nested structures
"""Test a shard of the modules in module_db, on every device that torch's framework finds."""

from __future__ import annotations

import copy
import io
import itertools
from typing import Any

import torch
from torch.testing._internal.common_modules import TrainEvalMode, module_db, modules
from torch.testing._internal.common_utils import TestCase
from torch.utils import _pytree as pytree

from tests.fbcode.devices import known
from tests.fbcode.sample import sampled

# Lazy modules are excluded, because they have no parameters to compare before their first call.
_MODULES = sampled([info for info in module_db if "Lazy" not in info.name], shards=12)
_SAMPLES = 2


class TestModules(TestCase):
    # Test only eval mode, because some modules apply random dropout in training mode.
    @modules(_MODULES, allowed_dtypes=[torch.float32], train_eval_mode=TrainEvalMode.eval_only)
    def test_agrees_with_itself_in_double_precision(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        for sample in _inputs(module_info, device, dtype, training):
            module = _module(module_info, sample, dtype).train(training)
            wide = copy.deepcopy(module).double()
            arguments = (sample.forward_input.args, sample.forward_input.kwargs)
            actual = _results_and_gradients(module.to(device), *arguments)
            expected = _results_and_gradients(wide, *pytree.tree_map(_double, arguments))
            self.assertEqual(actual, expected, exact_dtype=False, exact_device=False, **_APART)

    @modules(_MODULES, allowed_dtypes=[torch.float32])
    def test_its_state_goes_through_a_file(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        sample = _inputs(module_info, device, dtype, training)[0]
        module = _module(module_info, sample, dtype).to(device).train(training)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other = _module(module_info, sample, dtype, seed=1).to(device)
        other.load_state_dict(torch.load(file))
        self.assertEqual(other.state_dict(), module.state_dict())
        for leaf in other.state_dict().values():
            self.assertEqual(leaf.device.type, torch.device(device).type)


_APART = {"rtol": 1e-3, "atol": 1e-4}


def _inputs(info: Any, device: str, dtype: torch.dtype, training: bool) -> list[Any]:
    torch.manual_seed(0)
    samples = info.module_inputs_func(
        info, device=device, dtype=dtype, requires_grad=True, training=training
    )
    return list(itertools.islice(samples, _SAMPLES))


def _module(info: Any, sample: Any, dtype: torch.dtype, seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    args = pytree.tree_map_only(
        torch.Tensor,
        lambda leaf: leaf.detach().cpu(),
        (sample.constructor_input.args, sample.constructor_input.kwargs),
    )
    module = info.module_cls(*args[0], **args[1])
    assert isinstance(module, torch.nn.Module)
    # Convert the module, because some samples construct it on a different device or with a
    # different dtype.
    return module.cpu().to(dtype)


def _double(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    leaf = leaf.detach().cpu()
    return leaf.double().requires_grad_() if leaf.is_floating_point() else leaf


def _results_and_gradients(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    results = [
        leaf
        for leaf in pytree.tree_leaves(module(*args, **kwargs))
        if isinstance(leaf, torch.Tensor)
    ]
    parameters = list(module.parameters())
    smooth = [leaf for leaf in results if leaf.requires_grad]
    if not smooth or not parameters:
        return results, []
    total = torch.stack([(leaf * leaf).sum() for leaf in smooth]).sum()
    return results, list(torch.autograd.grad(total, parameters, allow_unused=True))


known.instantiate(TestModules, globals())
