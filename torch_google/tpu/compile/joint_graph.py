# SPDX-License-Identifier: Apache-2.0
"""Decompositions for AOTAutograd's joint graphs, and the partitioner that splits the graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from torch_google.tpu import lowerings
from torch_google.tpu.compile import randomness
from torch_google.tpu.compile.graph_refusals import without_refused
from torch_google.tpu.program.decompositions import Decompositions, decompositions


@cache
def joint_graph_decompositions() -> Decompositions:
    """Return the decompositions that AOTAutograd applies to a joint graph."""
    # Leave out decompositions that run composite kernels, because these may mutate tensors, and
    # AOTAutograd needs pure graphs. Our own tracing (`../program`) applies them.
    pure = {op: f for op, f in decompositions().items() if not isinstance(f, partial)}
    return without_refused(pure)


def partition(
    gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any
) -> tuple[GraphModule, GraphModule]:
    """Split a joint graph into a forward graph and a backward graph."""
    # Recompute views in the backward graph, because that is free. A saved view would be copied,
    # including the gaps between its elements, because each output of a program is a separate array.
    # Do not merge identical collectives, because another rank's graph may keep them separate.
    merge = not any(lowerings.is_collective(node.target) for node in gm.graph.nodes)
    with functorch_config.patch(recompute_views=True, cse=functorch_config.cse and merge):
        return randomness.partition(
            gm, lambda: min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        )
