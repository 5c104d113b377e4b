# SPDX-License-Identifier: Apache-2.0
"""Joint graphs of AOTAutograd's: which operators they have, and how they become two."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from torch_google.tpu.compile import randomness
from torch_google.tpu.compile.graph_refusals import without_refused
from torch_google.tpu.program.decompositions import Decompositions, decompositions


@cache
def known() -> Decompositions:
    """Return the decompositions for AOTAutograd."""
    # What is made of kernels that write waits for our own tracing: AOTAutograd takes pure graphs.
    pure = {op: f for op, f in decompositions().items() if not isinstance(f, partial)}
    return without_refused(pure)


def partition(
    gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any
) -> tuple[GraphModule, GraphModule]:
    """Return the forward graph and the backward graph."""
    # What a program returns is an array of its own. A view that is kept for the backward graph
    # would be a copy there, beside its base or with the gaps of its strides; to take it again
    # costs nothing.
    with functorch_config.patch(recompute_views=True):
        return randomness.partition(
            gm, lambda: min_cut_rematerialization_partition(gm, joint_inputs, **kwargs)
        )
