# SPDX-License-Identifier: Apache-2.0
"""The small kernels (`../csrc/small_kernels.h`) give the same results as torch's kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples
from torch_google.tpu import _C

_aten = torch.ops.aten
_BINARY = {
    "add": _aten.add.Tensor,
    "subtract": _aten.sub.Tensor,
    "multiply": _aten.mul.Tensor,
    "divide": _aten.div.Tensor,
}
_UNARY = {
    "negate": (_aten.neg.default, []),
    "square": (_aten.pow.Tensor_Scalar, [2]),
    "reciprocal_root": (_aten.rsqrt.default, []),
}
_NUMBERS = st.sampled_from([0, 3, -2, 2**40, 0.1, -0.0, 1e-40, 1e300, float("inf"), float("nan")])
_ELEMENTS = st.sampled_from([0.0, -0.0, 1e-40, 3e30, float("inf"), float("-inf"), float("nan")])


pytestmark = pytest.mark.usefixtures("cpu_kernels")


@st.composite
def _tensors(
    draw: st.DrawFn, sizes: tuple[int, ...], dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Draw a tensor that is dense or a part of a larger one, with its dimensions in any order.

    Dimensions of size 1 may have any strides.
    """
    order = draw(st.permutations(range(len(sizes)))) if draw(st.booleans()) else range(len(sizes))
    whole_sizes = [sizes[i] + draw(st.sampled_from([0, 0, 0, 1])) for i in order]
    seed = draw(st.integers(0, 2**31))
    whole = torch.randn(whole_sizes, generator=torch.Generator().manual_seed(seed)) * 3
    for value in draw(st.lists(_ELEMENTS, max_size=3)):
        whole.flatten()[: max(whole.numel() // 3, 1)] = value
    corner = tuple(
        slice(whole_size - sizes[i], None) for i, whole_size in zip(order, whole_sizes, strict=True)
    )
    part = whole.to(dtype)[corner].permute([list(order).index(i) for i in range(len(sizes))])
    ones = draw(st.sampled_from([None, 1, 2, 7]))
    strides = [
        ones if size == 1 and ones is not None else stride
        for size, stride in zip(part.shape, part.stride(), strict=True)
    ]
    return part.as_strided(part.shape, strides)


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw two tensors whose sizes broadcast, or a tensor and a number."""
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 3, 17]), max_size=4))
    pair: list[Any] = []
    for _ in range(2):
        own = [size if draw(st.integers(0, 2)) else 1 for size in sizes]
        own = own[draw(st.integers(0, len(own))) :] if draw(st.booleans()) else own
        pair.append(draw(_tensors(tuple(own))))
    number_index = draw(st.integers(0, 5))
    if number_index < 2:
        pair[number_index] = draw(_NUMBERS)
    return pair[0], pair[1]


def _step(op: Any, small: str, values: list[Any], *, overwrites: bool = False) -> Any:
    schema = op._schema
    return (schema.name, schema.overload_name, overwrites, small), values


def _run(steps: list[Any], tensors: list[torch.Tensor], outputs: list[int]) -> list[torch.Tensor]:
    """Copy `tensors` to tpu with their strides and offsets, and run a graph on the copies."""
    copies = [
        torch.tensor([], dtype=each.dtype)
        .set_(each.untyped_storage())
        .to("tpu")
        .as_strided(each.shape, each.stride(), each.storage_offset())
        for each in tensors
    ]
    graph = _C.CpuGraph(len(tensors), steps, [("value", output) for output in outputs], [], 0)
    results = graph.run(copies, None)
    assert isinstance(results, list), results
    return results


def _assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(actual.cpu().signbit()[expected == 0], expected.signbit()[expected == 0])
    strides = zip(actual.shape, actual.stride(), expected.stride(), strict=True)
    for size, actual_stride, expected_stride in strides:
        assert size == 1 or actual_stride == expected_stride


@settings(max_examples=examples(4000, part=60), deadline=None)
@given(st.sampled_from(list(_BINARY)), _pairs(), st.booleans())
def test_binary_operators_match_torch_exactly(
    name: str, pair: tuple[Any, Any], is_computed: bool
) -> None:
    tensors = [each for each in pair if isinstance(each, torch.Tensor)]
    steps, values, index = [], [], 0
    for each in pair:
        if isinstance(each, torch.Tensor):
            values.append(("value", index))
            index += 1
        elif is_computed:
            steps.append((max, [("constant", each), ("constant", each)]))
            values.append(("value", len(tensors)))
        else:
            values.append(("constant", each))
    alpha = [("constant", 1)] if name in ("add", "subtract") else []
    steps.append(_step(_BINARY[name], name, values + alpha))
    (actual,) = _run(steps, tensors, [len(tensors) + len(steps) - 1])
    _assert_same(actual, _BINARY[name](*pair))


@pytest.mark.parametrize("stride", [1, 2, 9])
def test_a_dimension_of_size_1_may_reverse_the_others(stride: int) -> None:
    row = torch.tensor([1.0, 2.0]).as_strided((1, 1, 2), (stride, 1, 1))
    column = torch.tensor([[3.0], [4.0]])
    step = _step(_BINARY["add"], "add", [("value", 0), ("value", 1), ("constant", 1)])
    (actual,) = _run([step], [row, column], [2])
    _assert_same(actual, row + column)


@settings(max_examples=examples(2000, part=40), deadline=None)
@given(st.sampled_from(list(_UNARY)), st.lists(st.integers(1, 5), max_size=4), st.data())
def test_unary_operators_match_torch_exactly(name: str, sizes: list[int], data: Any) -> None:
    op, constants = _UNARY[name]
    x = data.draw(_tensors(tuple(sizes)))
    step = _step(op, name, [("value", 0), *[("constant", each) for each in constants]])
    (actual,) = _run([step], [x], [1])
    _assert_same(actual, op(x, *constants))


@settings(max_examples=examples(2000, part=40), deadline=None)
@given(st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=4), st.data())
def test_concatenation_matches_torch(sizes: list[int], data: Any) -> None:
    axis = data.draw(st.integers(-len(sizes), len(sizes) - 1))
    dtype = data.draw(st.sampled_from([torch.float32, torch.int64, torch.bool, torch.bfloat16]))
    parts = []
    for length in data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3)):
        own = list(sizes)
        own[axis] = length
        parts.append(data.draw(_tensors(tuple(own), dtype)))
    operand_list = ("list", [("value", i) for i in range(len(parts))])
    step = _step(_aten.cat.default, "concatenate", [operand_list, ("constant", axis)])
    (actual,) = _run([step], parts, [len(parts)])
    _assert_same(actual, torch.cat(parts, axis))


@settings(max_examples=examples(2000, part=40), deadline=None)
@given(st.lists(st.integers(1, 4), max_size=3), st.integers(1, 40), st.booleans(), st.data())
def test_mean_is_close_to_the_mean_in_double_precision(
    sizes: list[int], length: int, keeps: bool, data: Any
) -> None:
    x = data.draw(_tensors((*sizes, length)))
    step = _mean_step(keeps)
    (actual,) = _run([step], [x], [1])
    expected = x.double().mean(-1, keepdim=keeps).float()
    # The tolerance is loose because torch's own kernel, which runs for some strides, accumulates in
    # float32.
    scale = float(x.abs().nan_to_num(0, 0, 0).max())
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6 * scale, equal_nan=True)
    assert actual.shape == x.mean(-1, keepdim=keeps).shape


def _mean_step(keeps: bool) -> Any:
    constants = [("constant", [-1]), ("constant", keeps), ("constant", None)]
    return _step(_aten.mean.dim, "row_mean", [("value", 0), *constants])


def test_mean_is_accumulated_in_double_precision() -> None:
    x = torch.tensor([[1e8, 1, -1e8, 2] * 4])
    assert float(x.mean(-1)) != 0.75
    (actual,) = _run([_mean_step(False)], [x], [1])
    assert float(actual) == 0.75


def test_an_overwriting_step_preserves_an_operand_that_is_also_an_output() -> None:
    x, y = torch.randn(3, 5), torch.randn(5)
    product = _step(_BINARY["multiply"], "multiply", [("value", 0), ("value", 1)])
    sums = _step(
        _BINARY["add"], "add", [("value", 2), ("value", 1), ("constant", 1)], overwrites=True
    )
    for outputs in ([3], [3, 2]):
        results = _run([product, sums], [x, y], outputs)
        _assert_same(results[0], x * y + y)
        if len(results) == 2:
            _assert_same(results[1], x * y)


def test_unsupported_arguments_fall_back_to_torch() -> None:
    """A graph runs torch's kernels for arguments that the small kernels do not support."""

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.add(x, y, alpha=2),
            torch.sub(x, 3, alpha=-2),
            x**3,
            x**2.0,
            x.double() * 0.1,
            (x > 0) + y,
            torch.div(x, y, rounding_mode="floor"),
            x.mean(0),
            x.mean((0, 1), keepdim=True),
            x.mean(1, dtype=torch.float64),
            torch.cat([x, y.double()]),
        ]

    torch._dynamo.reset()
    run = torch.compile(function, dynamic=True, fullgraph=True, backend="tpu")
    torch.tpu.reset_metrics()
    for length in (3, 4, 5):
        x, y = torch.randn(length, 6), torch.randn(length, 6)
        for actual, expected in zip(run(x.to("tpu"), y.to("tpu")), function(x, y), strict=True):
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual.cpu(), expected)
    assert torch.tpu.metrics().graphs["cpu_kernels"] == 2


def test_an_unknown_kernel_is_refused() -> None:
    step = _step(_aten.neg.default, "negative", [("value", 0)])
    with pytest.raises(RuntimeError, match="no small kernel is named negative"):
        _C.CpuGraph(1, [step], [("value", 1)], [], 0)
