# SPDX-License-Identifier: Apache-2.0
"""Splits a graph at its collectives, and runs the parts in between as separate programs.

A program that contains a collective across processes would have to be identical on all ranks, but
different ranks may have different graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from torch_google.tpu import lowerings

_WAIT = torch.ops._c10d_functional.wait_tensor.default

# A function that takes a list of arguments, which it may clear, and returns the results.
Program: TypeAlias = Callable[[list[Any]], Sequence[Any]]


class SplitGraph:
    """A graph whose parts run one after another. `compiled` is called to compile each part.

    A call clears its list of arguments, to free memory early.
    """

    def __init__(self, graph: GraphModule, compiled: Callable[[GraphModule], Program]) -> None:
        nodes = list(graph.graph.nodes)
        self._inputs = [node for node in nodes if node.op == "placeholder"]
        self._results = list(nodes[-1].args[0])
        self._steps = [
            _call_step(part[0]) if calls else _program_step(graph, part, compiled)
            for calls, part in _parts(nodes[len(self._inputs) : -1])
        ]
        used = {node for node in self._results if isinstance(node, Node)}
        for step in reversed(self._steps):
            step.unused = [node for node in {*step.inputs, *step.outputs} if node not in used]
            used.update(step.inputs)

    def __call__(self, args: list[Any]) -> list[Any]:
        values = dict(zip(self._inputs, args, strict=True))
        args.clear()
        for step in self._steps:
            step.run(values)
            for node in step.unused:
                del values[node]
        return [values[each] if isinstance(each, Node) else each for each in self._results]


@dataclass
class _Step:
    """A step of a split graph. `run` reads the inputs from a dict and adds the outputs to it.

    `unused` lists the nodes that no later step uses.
    """

    run: Callable[[dict[Node, Any]], None]
    inputs: Sequence[Node]
    outputs: Sequence[Node]
    unused: Sequence[Node] = ()


def _parts(nodes: Sequence[Node]) -> list[tuple[bool, list[Node]]]:
    """Split nodes into parts: (True, [collective]), and (False, nodes) for the nodes in between."""
    parts: list[tuple[bool, list[Node]]] = []
    calls: set[Node] = set()
    for node in nodes:
        # Run wait_tensor outside the programs, where it actually waits, because its lowering is a
        # no-op. A coalesced collective returns a list, which cannot be an input to a program, so
        # extract its items outside the programs as well.
        if (
            lowerings.is_collective(node.target)
            or node.target is _WAIT
            or (node.target is operator.getitem and node.args[0] in calls)
        ):
            calls.add(node)
            parts.append((True, [node]))
        elif parts and not parts[-1][0]:
            parts[-1][1].append(node)
        else:
            parts.append((False, [node]))
    return parts


def _call_step(node: Node) -> _Step:
    def run(values: dict[Node, Any]) -> None:
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = node.target(*args, **kwargs)

    return _Step(run, node.all_input_nodes, [node])


def _program_step(
    graph: GraphModule, part: Sequence[Node], compiled: Callable[[GraphModule], Program]
) -> _Step:
    inside = set(part)
    inputs = list(
        dict.fromkeys(each for node in part for each in node.all_input_nodes if each not in inside)
    )
    outputs = [node for node in part if any(user not in inside for user in node.users)]
    new = Graph()
    copies: dict[Node, Node] = {}
    for node in inputs:
        copies[node] = new.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in part:
        copies[node] = new.node_copy(node, copies.__getitem__)
    new.output([copies[node] for node in outputs])
    program = compiled(GraphModule(graph, new))

    def run(values: dict[Node, Any]) -> None:
        results = program([values[node] for node in inputs])
        values.update(zip(outputs, results, strict=True))

    return _Step(run, inputs, outputs)
