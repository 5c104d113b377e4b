# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._higher_order_ops.map import map as map_over

from torch_google.tpu.release import V2_6


def _choose(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin() * x, lambda x: x.cos(), (x,))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_cond_and_its_gradient(sign: float) -> None:
    x = (torch.rand(3) * sign).requires_grad_()
    device_x = x.detach().to("tpu").requires_grad_()
    _choose(x).sum().backward()
    torch.compile(_choose, fullgraph=True)(device_x).sum().backward()
    assert x.grad is not None
    assert device_x.grad is not None
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)


def test_both_branches_of_cond_are_in_one_program() -> None:
    compiled = torch.compile(_choose, fullgraph=True)
    for sign in (1.0, -1.0):
        x = torch.rand(3) * sign
        torch.testing.assert_close(compiled(x.to("tpu")).cpu(), _choose(x))
    assert torch.tpu.metrics().graphs["compile"] == 1


def test_while_loop() -> None:
    def function(i: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (i, x))

    i, x = torch.compile(function, fullgraph=True)(
        torch.tensor(2, device="tpu"), torch.ones(3, device="tpu")
    )
    assert i.item() == 5
    assert x.tolist() == [1.5**3] * 3


@pytest.mark.skipif(V2_6, reason="v2.6's scan has no gradient")
def test_scan_and_its_gradient() -> None:
    def function(start: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        last, all_rows = scan(lambda c, y: ((c * y).sin(), (c + y).cos()), start, rows)
        return last.sum() + all_rows.sum()

    def loop(start: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for row in rows:
            total = total + (start + row).cos().sum()
            start = (start * row).sin()
        return start.sum() + total

    inputs = [torch.rand(3).requires_grad_(), torch.rand(4, 3).requires_grad_()]
    device_inputs = [x.detach().to("tpu").requires_grad_() for x in inputs]
    expected, actual = loop(*inputs), torch.compile(function, fullgraph=True)(*device_inputs)
    torch.testing.assert_close(actual.cpu(), expected)
    expected.backward()
    actual.backward()
    for mine, its in zip(device_inputs, inputs, strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad.cpu(), its.grad)


def test_scan_from_the_end_along_another_dimension() -> None:
    def function(start: torch.Tensor, rows: torch.Tensor) -> Any:
        return scan(lambda c, y: (c * y, c + y), start, rows, dim=1, reverse=True)

    start, rows = torch.rand(3), torch.rand(3, 4)
    last, sums = torch.compile(function, fullgraph=True)(start.to("tpu"), rows.to("tpu"))
    expected: list[torch.Tensor] = []
    for row in reversed(rows.unbind(1)):
        expected.insert(0, start + row)
        start = start * row
    torch.testing.assert_close(last.cpu(), start)
    # v2.6 stacks the results along dimension 0, regardless of which dimension it scans.
    torch.testing.assert_close(sums.cpu(), torch.stack(expected, 0 if V2_6 else 1))


def test_associative_scan() -> None:
    function = torch.compile(
        lambda x: associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic"),
        fullgraph=True,
    )
    x = torch.rand(5, 3)
    torch.testing.assert_close(function(x.to("tpu")).cpu(), x.cumsum(0))


def test_a_region_that_is_compiled_once() -> None:
    @mark_compile_region
    def part(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    x = torch.rand(5)
    actual = torch.compile(lambda x: part(x) + part(x.cos()), fullgraph=True)(x.to("tpu"))
    torch.testing.assert_close(actual.cpu(), x.sin() * 2 + x.cos().sin() * 2)


def test_map() -> None:
    function = torch.compile(
        lambda x, y: map_over(lambda row, other: row.sin() + other, x, y), fullgraph=True
    )
    x, y = torch.rand(5, 3), torch.rand(3)
    torch.testing.assert_close(function(x.to("tpu"), y.to("tpu")).cpu(), x.sin() + y)


def test_map_seen_from_the_side() -> None:
    function = torch.compile(
        lambda x: (map_over(lambda row: row.sin(), x).t(), map_over(lambda row: row * 2, x)[1:]),
        fullgraph=True,
    )
    x = torch.rand(5, 3)
    turned, rest = function(x.to("tpu"))
    torch.testing.assert_close(turned.cpu(), x.sin().t())
    torch.testing.assert_close(rest.cpu(), x[1:] * 2)


@pytest.mark.skipif(V2_6, reason="v2.6's Dynamo fails here, on the CPU as well")
def test_a_graph_breaks_where_values_are_asked_for() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum().item() > 0 else x.nonzero().float()

    compiled = torch.compile(function)
    for x in (torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 0.0])):
        torch.testing.assert_close(compiled(x.to("tpu")).cpu(), function(x))
