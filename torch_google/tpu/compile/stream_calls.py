# SPDX-License-Identifier: Apache-2.0
"""Moves stream and event calls out of a Dynamo graph, because a program has no streams.

In a program, an operator waits only for its operands. So the compiled function makes the calls
after it has launched the program. An event that is recorded at that point covers the whole program,
and synchronize() waits for the whole program.

The calls are removed before AOTAutograd traces the graph. Otherwise, AOTAutograd would order the
operators by stream, and use Triton to estimate their times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node


@dataclass(frozen=True)
class StreamCall:
    """A call to an operator of torch.ops.streams.

    The arguments are indices into the tables in which Dynamo stores streams and events.
    """

    name: str
    arguments: tuple[int | str, ...]

    def __call__(self) -> None:
        getattr(torch.ops.streams, self.name)(*self.arguments)


def take_stream_calls(graph: GraphModule) -> list[StreamCall]:
    """Remove the stream and event calls from a graph, and return them in order.

    The list omits calls that have no effect on this device. Also removes the metadata that records
    in which stream's `with` block an operator was called. Calls in the bodies of higher-order
    operators are kept.
    """
    for module in graph.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            node.meta.get("custom", {}).pop("stream", None)
    nodes = [node for node in graph.graph.nodes if _name(node) is not None]
    calls = [StreamCall(str(_name(node)), node.args) for node in nodes]
    for node in nodes:
        graph.graph.erase_node(node)
    if nodes:
        graph.recompile()
    # record_stream has no effect, because a buffer is freed only after the programs that read it
    # have finished.
    return [call for call in calls if call.name != "record_stream"]


def calling_after(run: Callable[..., Any], calls: Sequence[StreamCall]) -> Callable[..., Any]:
    """Return a function that calls `run`, and then makes the stream calls `calls`."""
    if not calls:
        return run

    def run_and_call(*args: Any) -> Any:
        results = run(*args)
        for call in calls:
            call()
        return results

    return run_and_call


def _name(node: Node) -> str | None:
    """Return the operator's name if a node calls an operator of torch.ops.streams, else None."""
    if not isinstance(node.target, OpOverload | OpOverloadPacket):
        return None
    namespace, name, *_ = str(node.target).split(".")
    return name if namespace == "streams" else None
