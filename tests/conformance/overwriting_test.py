# SPDX-License-Identifier: Apache-2.0
"""Test that an elementwise operator gives the same results if a graph runs it in place.

A graph runs an elementwise operator in place if nothing else uses the operand's memory. The samples
come from op_db. The default run covers some of the operators, and the full run covers all of them.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.conformance import samples, two_ways

# The default run covers about this many operators.
_PARTS = 40
_CLONE = ("aten::clone", "", False, None)


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    from torch_google.tpu import autoload

    autoload()
    torch.tpu.init()
    torch.tpu.set_cpu_kernels(True)


class _Calls(TorchDispatchMode):
    """Records elementwise calls whose results have the dtype and sizes of the first operand."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema.arguments
        values = {argument.name: argument.default_value for argument in schema}
        values |= dict(zip(values, args, strict=False))
        values |= kwargs or {}
        arguments = [_detached(value) for value in values.values()]
        result = func(*args, **(kwargs or {}))
        if (
            torch.Tag.pointwise in func.tags
            and not func._schema.is_mutable
            and isinstance(result, torch.Tensor)
            and isinstance(arguments[0], torch.Tensor)
            and (arguments[0].dtype, arguments[0].shape) == (result.dtype, result.shape)
            and result.dtype in (torch.float32, torch.int64, torch.bool)
        ):
            self.calls.append((func, arguments))
        return result


def _detached(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), value)


@pytest.mark.parametrize(("name", "dtype"), two_ways.selected(_PARTS), ids=str)
def test_results_do_not_change(name: str, dtype: torch.dtype) -> None:
    op = samples.operators()[name]
    if dtype not in op.dtypes or name.startswith("jiterator"):
        return  # op_db declares no samples of this dtype, or the operator needs CUDA.
    recorder = _Calls()
    picked, _ = samples.pick(op, dtype, None, few=2, gradients=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in picked:
            args, kwargs = samples.placed(op, sample, "cpu")
            with recorder:
                op.op(*args, **kwargs)
    close: dict[str, Any] = {"rtol": 0, "atol": 0, "equal_nan": True}
    for func, arguments in recorder.calls:
        expected = _on_the_cpu(func, arguments)
        actual, overwritten = _overwritten(func, arguments)
        torch.testing.assert_close(actual, expected, **close)
        assert _strides(actual) == _strides(expected), func
        for tensor, before in overwritten:
            torch.testing.assert_close(tensor.cpu(), before, **close)


def _on_the_cpu(func: Any, arguments: list[Any]) -> torch.Tensor:
    schema = func._schema.arguments
    named = dict(zip((each.name for each in schema), arguments, strict=True))
    keywords = {each.name: named.pop(each.name) for each in schema if each.kwarg_only}
    result: torch.Tensor = func(*named.values(), **keywords)
    return result


def _strides(tensor: torch.Tensor) -> list[int]:
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in sizes if size != 1]


def _overwritten(
    func: Any, arguments: list[Any]
) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Run an operator on a copy of its first operand, which only it uses.

    Return the result, and the tensor arguments on the device and on the CPU.
    """
    from torch_google.tpu import _C
    from torch_google.tpu.compile import cpu_graph

    tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
    registers = {id(tensor): index for index, tensor in enumerate(tensors)}

    def operand(value: Any) -> tuple[str, Any]:
        if isinstance(value, torch.Tensor):
            return "value", registers[id(value)]
        if isinstance(value, list | tuple) and any(isinstance(v, torch.Tensor) for v in value):
            return "list", [operand(item) for item in value]
        return "constant", value

    small = cpu_graph.small_kernel(func, arguments, arguments[0])
    operands = [operand(value) for value in arguments]
    copy, result = len(tensors), len(tensors) + 1
    steps = [
        (_CLONE, [operands[0], ("constant", None)]),
        (
            (func._schema.name, func._schema.overload_name, True, small),
            [("value", copy), *operands[1:]],
        ),
    ]
    graph = _C.CpuGraph(len(tensors), steps, [("value", result)], [], 0)
    placed = [tensor.to("tpu") for tensor in tensors]
    results = graph.run(placed, None)
    assert isinstance(results, list), func
    return results[0].cpu(), list(zip(placed, tensors, strict=True))
