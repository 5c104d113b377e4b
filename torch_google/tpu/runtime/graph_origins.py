# SPDX-License-Identifier: Apache-2.0
"""Finds the modules and source lines of the operators in torch.compile's programs.

A compiled program contains only the position of each operator in its graph. The graph's nodes have
the rest, and are read when a profiler trace ends. So a program from the compile cache has the
origins of this process's graph, and the cache's key does not depend on line numbers.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

from torch.fx import GraphModule, Node

from torch_google.tpu.runtime import errors

Origin = tuple[str, str, int, bool]
"""A module, a file, a line, and whether the operator is part of the backward pass. The module and
the file are "" if they are unknown."""

_KEPT = "torch_google_origin"
_COMPILED = "L.self."  # the start of a path in a compiled module
_UNPICKLABLE = ("nn_module_stack", "fwd_nn_module_stack")
_graphs: dict[str, WeakSet[GraphModule]] = defaultdict(WeakSet)
_lock = threading.Lock()


def register(module: str, graph: GraphModule) -> None:
    """Remember that the HLO module of this name computes the graph, while the graph exists."""
    with _lock:
        _graphs[module].add(graph)


def of_module(module: str) -> list[tuple[Origin, ...]]:
    """Return the origins of the nodes of each graph that an HLO module computes.

    Graphs with equal nodes share a module. Graphs with the same origins are returned only once.
    """
    with _lock:
        graphs = list(_graphs.get(module, ()))
    return list(dict.fromkeys(tuple(map(_origin, graph.graph.nodes)) for graph in graphs))


def prepare_for_serialization(graph: GraphModule) -> None:
    """Replace the metadata from which origins are computed, which cannot be pickled."""
    for node in graph.graph.nodes:
        node.meta[_KEPT] = _origin(node)
        for name in _UNPICKLABLE:
            node.meta.pop(name, None)


def _origin(node: Node) -> Origin:
    kept: Origin | None = node.meta.get(_KEPT)
    if kept is not None:
        return kept
    own, forward = (node.meta.get(name) or {} for name in _UNPICKLABLE)
    is_backward = bool(node.meta.get("autograd_backward") or forward)
    file, line = _line(node.meta.get("stack_trace") or "")
    return _module(own or forward), file, line, is_backward


def _module(stack: Mapping[str, Any]) -> str:
    """Return the innermost module of Dynamo's stack, such as `Net.layers.3`.

    The name starts with the class of the outermost module. The stack lacks the compiled module, so
    the names of its children start with their attribute, such as `layers.3`.
    """
    entries = [(_dotted(path), kind) for path, kind in stack.values()]
    if not entries:
        return ""
    (first, outermost), (last, innermost) = entries[0], entries[-1]
    if last.startswith(_COMPILED):
        return last.removeprefix(_COMPILED)
    if last == first or last.startswith(f"{first}."):
        return f"{_class_name(outermost)}{last.removeprefix(first)}"
    return _class_name(innermost)


def _class_name(kind: Any) -> str:
    return kind.rpartition(".")[2] if isinstance(kind, str) else str(kind.__name__)


def _dotted(path: str) -> str:
    """Return Dynamo's path to a module, such as `L['self'].layers[0]`, with dots only."""
    return re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path.replace("._modules", ""))


def _line(trace: str) -> tuple[str, int]:
    """Return the innermost line of the user's code in a formatted stack trace."""
    for file, line in reversed(re.findall(r'File "([^"]+)", line (\d+)', trace)):
        if errors.is_users(file):
            return file, int(line)
    return "", 0
