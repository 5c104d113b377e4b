# SPDX-License-Identifier: Apache-2.0
"""The torch.compile backend for torch v2.6, whose AOTAutograd caches only Inductor's graphs.

Unlike aot.py, this backend traces every graph again in each process. Programs still come from the
compile cache.
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
from torch_google.tpu.compile.joint_graph import joint_graph_decompositions, partition
from torch_google.tpu.compile.options import Options, parse


def backend(
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph, with the same modes, options and errors as `backend` in aot.py."""
    torch.tpu.init()  # initializes the backend, and enables JAX's 64-bit types, which torch needs
    compile_graph = partial(_compile, parse(mode, options), dtypes.default_dtype())
    compiler = aot_autograd(
        fw_compiler=partial(compile_graph, forward=True),
        bw_compiler=partial(compile_graph, backward=True),
        inference_compiler=partial(compile_graph, inference=True),
        decompositions=dict(joint_graph_decompositions()),
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
    """Compile one graph. A backward graph is compiled only on its first call.

    `default` is the default dtype that torch had when the forward graph was traced. Both graphs use
    it.
    """
    token = CHOSEN.set(chosen)
    try:
        _lay_out_maps(graph)
        with dtypes.defaulting_to(default):
            return CompiledGraph(graph, inputs, **part)
    finally:
        CHOSEN.reset(token)


def _lay_out_maps(graph: GraphModule) -> None:
    """Make the results of `map` operators contiguous in the graph's metadata.

    In v2.6, the metadata describes each result as a single row expanded along dimension 0. This
    function also updates the metadata of all nodes that depend on such a result.
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
            args, kwargs = map_arg((node.args, node.kwargs), lambda argument: argument.meta["val"])
            node.meta["val"] = node.target(*args, **kwargs)
        changed.add(node)
