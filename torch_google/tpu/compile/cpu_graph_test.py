# SPDX-License-Identifier: Apache-2.0
"""Graphs on CPU kernels: their views, skipped steps, cached constants and overwritten operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples
from torch_google.tpu import _C
from torch_google.tpu.compile import cpu_graph

_aten = torch.ops.aten


pytestmark = pytest.mark.usefixtures("cpu_kernels")


@st.composite
def _sources(draw: st.DrawFn) -> torch.Tensor:
    """Draw a tensor of up to four dimensions, dense or a part of a larger one, with any strides."""
    sizes = draw(st.lists(st.integers(0, 4), max_size=4))
    gaps = [size + draw(st.integers(0, 1)) for size in sizes]
    whole = torch.arange(float(torch.Size(gaps).numel())).reshape(gaps)
    source = whole[tuple(slice(gap - size, None) for size, gap in zip(sizes, gaps, strict=True))]
    return source.permute(draw(st.permutations(range(len(sizes)))))


@st.composite
def _views(draw: st.DrawFn) -> tuple[torch.Tensor, Any, list[Any]]:
    """Draw a tensor, an operator that creates a view of it, and the operator's other arguments."""
    source = draw(_sources())
    dimension = st.integers(-source.dim() - 1, source.dim())
    number = st.integers(-6, 6)
    sizes = st.lists(st.integers(-1, 4), max_size=5)
    dimensions = st.lists(dimension, max_size=2, unique_by=lambda each: each % max(source.dim(), 1))
    factors = list(source.shape)
    regrouped = st.just([1, *factors]) | st.just([-1, *factors[1:]]) | st.just([*factors[:-1], -1])
    op, arguments = draw(
        st.sampled_from(
            [
                (_aten.alias.default, ()),
                (_aten.detach.default, ()),
                (_aten.t.default, ()),
                (_aten.view.default, (sizes | regrouped,)),
                (_aten._unsafe_view.default, (sizes | regrouped,)),
                (_aten.permute.default, (st.permutations(range(source.dim())),)),
                (
                    _aten.expand.default,
                    (st.just([2, *factors]) | st.just([3, *[-1] * source.dim()]),),
                ),
                (_aten.squeeze.dim, (dimension,)),
                (_aten.squeeze.dims, (dimensions,)),
                (_aten.transpose.int, (dimension, dimension)),
                (_aten.unsqueeze.default, (dimension,)),
                (_aten.select.int, (dimension, number)),
                (
                    _aten.slice.Tensor,
                    (dimension, st.none() | number, st.none() | number, st.integers(0, 3)),
                ),
            ]
        )
    )
    return source, op, [draw(argument) for argument in arguments]


@settings(max_examples=examples(3000, part=30), deadline=None)
@given(_views())
def test_views_are_torch_s(drawn: tuple[torch.Tensor, Any, list[Any]]) -> None:
    source, op, arguments = drawn
    try:
        expected = op(source, *arguments)
    except (RuntimeError, IndexError):
        expected = None
    actual = _run_view(source, op, arguments)
    if expected is None or actual is None:
        assert actual is expected
    else:
        torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0)
        assert actual.stride() == expected.stride()


def _run_view(source: torch.Tensor, op: Any, arguments: list[Any]) -> torch.Tensor | None:
    step = cpu_graph.view(
        op,
        [source, *arguments],
        lambda value: ("value", 0) if value is source else ("constant", value),
    )
    graph = _C.CpuGraph(1, [step], [("value", 1)], [], 0)
    elements = torch.tensor([]).set_(source.untyped_storage()).to("tpu")
    placed = elements.as_strided(source.shape, source.stride(), source.storage_offset())
    results = graph.run([placed], None)
    return results[0] if isinstance(results, list) else None


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, dynamic=True, fullgraph=True, backend="tpu")


def _targets(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *args: torch.Tensor
) -> list[str]:
    """Run a function with two sets of sizes. Return the steps of its graph on CPU kernels."""
    plans = []

    def plan(*values: Any) -> Any:
        plans.append(original(*values))
        return plans[-1]

    original = cpu_graph.plan
    monkeypatch.setattr("torch_google.tpu.compile.cpu_calls.plan", plan)
    run = _compiled(function)
    for values in (args, [torch.cat([value, value]) for value in args]):
        expected = function(*values)
        actual = run(*[value.to("tpu") for value in values])
        torch.testing.assert_close(actual.cpu(), expected)
        assert actual.stride() == expected.stride()
    (translation,) = plans
    steps = translation.steps
    return [action[0] if isinstance(action, tuple) else str(action) for action, _ in steps]


def test_a_value_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * x.sin() + (x + 1.0) * (x + 1)

    targets = _targets(function, monkeypatch, torch.randn(3))
    assert targets.count("aten::sin") == 1
    # 1 and 1.0 may give different dtypes.
    assert targets.count("aten::add") == 3


def test_zeros_of_other_signs_are_other_values() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        positive = torch.full_like(x, complex(0, 0.0), dtype=torch.complex64)
        negative = torch.full_like(x, complex(0, -0.0), dtype=torch.complex64)
        return torch.stack([1 / positive.imag, 1 / negative.imag])

    run = _compiled(function)
    for length in (5, 6, 7):
        x = torch.ones(length)
        torch.testing.assert_close(run(x.to("tpu")).cpu(), function(x))


def test_views_that_change_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x.t().t().expand(x.shape[0], 2).reshape(x.shape[0], 2).detach() + 1).t()

    # C++ does not run steps whose results are not used, such as the first transpose.
    targets = _targets(function, monkeypatch, torch.randn(3, 2))
    assert targets == ["matrix_transpose", "aten::add", "matrix_transpose"]


def test_constants_are_computed_once_and_are_not_results() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        constant = torch.arange(4, device=x.device) * 2 + 1
        return constant.view(2, 2), constant[1:2] + x

    torch.tpu.reset_metrics()
    run = _compiled(function)
    for length in (3, 4, 5, 6):
        results = run(torch.ones(length, device="tpu"))
        for actual, expected in zip(results, function(torch.ones(length)), strict=True):
            torch.testing.assert_close(actual.cpu(), expected)
        for result in results:
            result.zero_()
    assert torch.tpu.metrics().graphs["cpu_kernels"] == 3


def test_an_operand_that_is_used_again_is_not_overwritten() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        view = y.view(-1)
        return y * 2, y * y, view * 3, x * 2, (x * 5).expand(2, *x.shape) * 2

    run = _compiled(function)
    for length in (3, 4, 5):
        x = torch.randn(length, 2)
        argument = x.to("tpu")
        for actual, expected in zip(run(argument), function(x), strict=True):
            torch.testing.assert_close(actual.cpu(), expected)
            assert actual.stride() == expected.stride()
        torch.testing.assert_close(argument.cpu(), x)
