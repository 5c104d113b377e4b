# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile: AOTAutograd's graphs, forward and backward, each one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from torch_google.tpu.compile.compiled import Compiled
from torch_google.tpu.program.decompositions import decompositions


def backend(
    graph: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: `torch.compile(model, backend=backend)`.

    There are no options yet: any raises ValueError. Raises NotImplementedError, when the graph is
    first called, for operators that nothing lowers.
    """
    if options:
        raise ValueError(
            f"tpu: torch.compile has no option {', '.join(sorted(options))} for the backend 'tpu'. "
            "Leave it out"
        )
    # What is made of kernels that write waits for our own tracing: AOTAutograd takes pure graphs.
    known = {op: f for op, f in decompositions().items() if not isinstance(f, partial)}
    compiler = aot_autograd(fw_compiler=_compile, bw_compiler=_compile, decompositions=known)
    return compiler(graph, inputs)


def _compile(graph: GraphModule, inputs: Sequence[Any]) -> Compiled:
    devices = {leaf.device for leaf in inputs if isinstance(leaf, torch.Tensor)}
    devices |= {
        torch.device(node.kwargs["device"])
        for node in graph.graph.nodes
        if isinstance(node.kwargs.get("device"), torch.device | str)
    }
    return Compiled(graph, devices)
