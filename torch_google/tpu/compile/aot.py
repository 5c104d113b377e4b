# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile: AOTAutograd's graphs, forward and backward, each one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from torch_google.tpu.compile import randomness
from torch_google.tpu.compile.compiled import Compiled
from torch_google.tpu.compile.options import parse
from torch_google.tpu.program.decompositions import Decompositions, decompositions


def backend(
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: `torch.compile(model, backend="tpu")`.

    Modes and options are in `options.py`; others raise ValueError. Raises NotImplementedError, when
    the graph is first called, for operators that nothing lowers.
    """
    chosen = parse(mode, options)
    compiler = aot_autograd(
        fw_compiler=partial(Compiled, options=chosen),
        bw_compiler=partial(Compiled, options=chosen),
        inference_compiler=partial(Compiled, options=chosen, inference=True),
        decompositions=_known(),
        partition_fn=_partition,
        keep_inference_input_mutations=True,
    )
    return compiler(graph, inputs)


@cache
def _known() -> Decompositions:
    # What is made of kernels that write waits for our own tracing: AOTAutograd takes pure graphs.
    return {op: f for op, f in decompositions().items() if not isinstance(f, partial)}


def _partition(
    joint: GraphModule, inputs: Sequence[Any], **kwargs: Any
) -> tuple[GraphModule, GraphModule]:
    return randomness.partition(
        joint, lambda: min_cut_rematerialization_partition(joint, inputs, **kwargs)
    )
