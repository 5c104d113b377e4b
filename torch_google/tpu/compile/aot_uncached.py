# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile with torch v2.6, whose AOTAutograd keeps graphs of inductor only.

As aot.py, but a process traces each graph anew. Its programs come from the compile cache as ever.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._higher_order_ops.map import map_impl
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from torch_google.tpu import dtypes
from torch_google.tpu.compile.compiled_graph import CHOSEN, CompiledGraph
from torch_google.tpu.compile.joint_graph import known, partition
from torch_google.tpu.compile.options import Options, parse


def backend(
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's. Modes, options and errors are those of aot.py."""
    torch.tpu.init()  # the platform, and JAX as torch needs it: with 64 bits
    made = partial(_compile, parse(mode, options), dtypes.default_dtype())
    compiler = aot_autograd(
        fw_compiler=partial(made, forward=True),
        bw_compiler=partial(made, backward=True),
        inference_compiler=partial(made, inference=True),
        decompositions=dict(known()),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    compiled: Callable[..., Any] = compiler(graph, inputs)
    return compiled


def _compile(
    chosen: Options,
    default: torch.dtype,
    graph: GraphModule,
    inputs: Sequence[Any],
    **part: bool,
) -> CompiledGraph:
    """Compile one graph; the backward one comes when the gradient is first wanted.

    It has torch's default dtype of the forward one.
    """
    token = CHOSEN.set(chosen)
    try:
        _lay_out_maps(graph)
        with dtypes.defaulting_to(default):
            return CompiledGraph(graph, inputs, **part)
    finally:
        CHOSEN.reset(token)


def _lay_out_maps(graph: GraphModule) -> None:
    """Let what `map` gives have a place for each row: v2.6 describes one row that is seen often.

    What is made of it is described anew.
    """
    changed: set[Node] = set()
    for node in graph.graph.nodes:
        source = node.args[0] if node.target is operator.getitem else None
        if isinstance(source, Node) and source.target is map_impl:
            node.meta["val"] = node.meta["val"].contiguous()
        elif changed.isdisjoint(node.all_input_nodes) or not (
            source is not None or isinstance(node.target, OpOverload)
        ):
            continue
        else:
            args, kwargs = map_arg((node.args, node.kwargs), lambda given: given.meta["val"])
            node.meta["val"] = node.target(*args, **kwargs)
        changed.add(node)
