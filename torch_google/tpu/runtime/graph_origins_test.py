# SPDX-License-Identifier: Apache-2.0
"""The names of modules in Dynamo's stacks, and the user's lines in its traces."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from torch_google.tpu.runtime import graph_origins


class Net(torch.nn.Module):
    """The outermost module of the stacks."""


_NET, _LINEAR = ("G['net']", Net), torch.nn.Linear


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ([], ""),
        ([_NET], "Net"),
        ([("G['net']", "__main__.Net"), ("G['net'].layers.0", _LINEAR)], "Net.layers.0"),
        ([_NET, ("G['net']._modules['layers']._modules['0']", _LINEAR)], "Net.layers.0"),
        ([_NET, ("G['other'].layers[0]", _LINEAR)], "Linear"),
        ([("L['self'].layers[0]", Net), ("L['self'].layers[0].q", _LINEAR)], "layers.0.q"),
        ([("L['f'].__closure__[0].cell_contents", Net)], "Net"),
    ],
)
@pytest.mark.parametrize("key", ["nn_module_stack", "fwd_nn_module_stack"])
def test_a_module_is_named_by_its_path(stack: list[Any], name: str, key: str) -> None:
    graph, node = _graph()
    node.meta[key] = {str(index): entry for index, entry in enumerate(stack)}
    node.meta["stack_trace"] = (
        f'  File "/home/user/net.py", line 7, in f\n  File "{torch.__file__}", line 1'
    )
    expected = (name, "/home/user/net.py", 7, bool(stack) and key.startswith("fwd"))
    module = f"{key} {stack}"
    graph_origins.register(module, graph)
    assert graph_origins.of_module(module) == [(expected,)]
    graph_origins.prepare_for_serialization(graph)
    assert key not in node.meta
    assert graph_origins.of_module(module) == [(expected,)]


def test_equal_graphs_are_returned_once_and_only_while_they_exist() -> None:
    (one, _), (two, _), (three, node) = _graph(), _graph(), _graph()
    node.meta["stack_trace"] = '  File "/home/user/net.py", line 7, in f'
    for graph in (one, two, three):
        graph_origins.register("shared", graph)
    assert len(graph_origins.of_module("shared")) == 2
    assert graph_origins.of_module("other") == []
    del three, node, graph
    gc.collect()
    assert len(graph_origins.of_module("shared")) == 1


def _graph() -> tuple[torch.fx.GraphModule, torch.fx.Node]:
    graph = torch.fx.Graph()
    node = graph.call_function(torch.ops.aten.ones.default, ([],))
    return torch.fx.GraphModule(torch.nn.Module(), graph), node
