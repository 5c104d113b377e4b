# SPDX-License-Identifier: Apache-2.0
"""Splitting a graph at its collectives does not change its results or the order of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from torch_google.tpu.compile.split_graph import SplitGraph

_OPS = torch.ops._c10d_functional


@pytest.fixture(autouse=True)
def group() -> Iterator[str]:
    """Create a process group with one rank, and return its name."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD.group_name
    dist.destroy_process_group()


def _split(function: Any, *inputs: torch.Tensor) -> tuple[SplitGraph, list[str]]:
    """Return a function's split graph, and a list to which each part appends its operators."""
    graph = make_fx(function)(*inputs)
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    output.args = (list(output.args[0]),)
    ran: list[str] = []

    def compiled(part: GraphModule) -> Any:
        names = [str(node.target) for node in part.graph.nodes if node.op == "call_function"]

        def run(args: list[Any]) -> Any:
            ran.append(" ".join(names))
            return part(*args)

        return run

    return SplitGraph(graph, compiled), ran


def test_the_parts_between_collectives_are_programs(group: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        total = _OPS.wait_tensor(_OPS.all_reduce(x * 2, "sum", group))
        parts = _OPS.all_reduce_coalesced([y + 1, total], "max", group)
        first, second = (_OPS.wait_tensor(part) for part in parts)
        return first - second, x, total.exp()

    inputs = torch.arange(3.0), torch.ones(3)
    split, ran = _split(function, *inputs)
    for _ in range(2):
        args = list(inputs)
        results = split(args)
        assert not args
        for result, expected in zip(results, function(*inputs), strict=True):
            assert torch.equal(result, expected)
    assert ran == ["aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor aten.exp.default"] * 2


def test_a_graph_of_collectives_has_no_programs(group: str) -> None:
    def function(x: torch.Tensor) -> Any:
        return (_OPS.wait_tensor(_OPS.all_reduce(x, "sum", group)),)

    split, ran = _split(function, torch.ones(2))
    assert split([torch.ones(2)])[0].tolist() == [1.0, 1.0]
    assert not ran
