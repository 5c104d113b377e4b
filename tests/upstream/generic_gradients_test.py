# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - torch's test framework requires its own TestCase
"""Gradients on tpu agree with finite differences, which are also computed on tpu.

These tests use torch's device-generic test framework. tests/conformance compares the gradients of
all operators with those on the CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, gradcheck, gradgradcheck
from torch.utils import _pytree as pytree

_Call = Callable[..., Any]
_Tensors = tuple[torch.Tensor, ...]

# One or two operators from each group of lowerings. All are twice differentiable.
_CHOSEN = {
    "addmm",
    "atan2",
    "cumprod",
    "cumsum",
    "fft.fft",
    "gather",
    "index_select",
    "linalg.cholesky",
    "linalg.inv",
    "linalg.norm",
    "linalg.solve",
    "log_softmax",
    "logsumexp",
    "masked.mean",
    "matmul",
    "mul",
    "nn.functional.avg_pool2d",
    "nn.functional.conv1d",
    "nn.functional.gelu",
    "nn.functional.interpolate",
    "nn.functional.layer_norm",
    "nn.functional.pad",
    "nn.functional.smooth_l1_loss",
    "prod",
    "scatter_add",
    "sigmoid",
    "special.i0e",
    "std",
    "tril",
    "where",
}
_OPERATORS = [op for op in op_db if op.name in _CHOSEN and not op.variant_test_name]


class TestGradients(TestCase):
    @ops(_OPERATORS, allowed_dtypes=[torch.float64])
    def test_first_order(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for call, tensors in _calls(op, device, dtype):
            self.assertTrue(gradcheck(call, tensors, fast_mode=True))

    @ops([op for op in _OPERATORS if op.supports_gradgrad], allowed_dtypes=[torch.float64])
    def test_second_order(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for call, tensors in itertools.islice(_calls(op, device, dtype), 1):
            self.assertTrue(gradgradcheck(call, tensors, fast_mode=True))

    @ops([op for op in _OPERATORS if op.supports_forward_ad], allowed_dtypes=[torch.float64])
    def test_forward_mode(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for call, tensors in itertools.islice(_calls(op, device, dtype), 1):
            self.assertTrue(
                gradcheck(
                    call,
                    tensors,
                    fast_mode=True,
                    check_forward_ad=True,
                    check_backward_ad=False,
                    check_undefined_grad=False,
                    check_batched_grad=False,
                )
            )


def _calls(op: Any, device: str, dtype: torch.dtype) -> Iterator[tuple[_Call, _Tensors]]:
    """For each of the first samples, yield its differentiable tensors and a function of them."""
    for sample in itertools.islice(op.sample_inputs(device, dtype, requires_grad=True), 2):
        leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        tensors = tuple(x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad)
        if tensors:
            yield _of_tensors(op, sample), tensors


def _of_tensors(op: Any, sample: Any) -> _Call:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))

    def call(*tensors: torch.Tensor) -> Any:
        new = iter(tensors)
        filled = [
            next(new) if isinstance(x, torch.Tensor) and x.requires_grad else x for x in leaves
        ]
        first, args, kwargs = pytree.tree_unflatten(filled, spec)
        # gradcheck perturbs single elements. If the operator requires a symmetric input, op_db's
        # wrapper makes it symmetric again.
        result = op.gradcheck_wrapper(op.op, first, *args, **kwargs)
        process = sample.output_process_fn_grad
        return process(result) if process else result

    return call


instantiate_device_type_tests(TestGradients, globals(), only_for=("privateuse1",))
