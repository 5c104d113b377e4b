# SPDX-License-Identifier: Apache-2.0
"""The torch.compile backend, which compiles each AOTAutograd graph to one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor import config as inductor_config
from torch._inductor.custom_graph_pass import CustomPartitionerFn
from torch.fx import GraphModule

from torch_google.tpu.compile.compiled_graph import CHOSEN, CompiledGraph
from torch_google.tpu.compile.joint_graph import joint_graph_decompositions, partition
from torch_google.tpu.compile.options import parse
from torch_google.tpu.compile.stream_calls import calling_after, take_stream_calls
from torch_google.tpu.compile.written_collectives import replace_written_collectives


def backend(
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph for `torch.compile(model, backend="tpu")`.

    `options.py` lists the modes and options. Raises ValueError for an unknown mode or option. If an
    operator has no lowering, the first call to the graph raises NotImplementedError.
    """
    torch.tpu.init()  # initializes the backend, and enables JAX's 64-bit types, which torch needs
    replace_written_collectives(graph)
    calls = take_stream_calls(graph)
    compiler = aot_autograd(
        fw_compiler=SerializableAOTDispatchCompiler(
            CompiledGraph, partial(CompiledGraph, forward=True)
        ),
        bw_compiler=SerializableAOTDispatchCompiler(
            CompiledGraph, partial(CompiledGraph, backward=True)
        ),
        inference_compiler=SerializableAOTDispatchCompiler(
            CompiledGraph, partial(CompiledGraph, inference=True)
        ),
        decompositions=joint_graph_decompositions(),
        partition_fn=_PARTITION,
        keep_inference_input_mutations=True,
    )
    chosen = CHOSEN.set(parse(mode, options))
    try:
        with (
            # These settings make AOTAutograd cache our graphs, include the partitioner in the cache
            # key, and trace the backward graph eagerly. Tracing is cheap, because the backward
            # graph is not compiled until its first call.
            functorch_config.patch(
                bundled_autograd_cache=True,
                force_non_lazy_backward_lowering=True,
                # Create effect tokens inside the graph, as `effects.py` expects, instead of passing
                # them as graph inputs and outputs.
                unlift_effect_tokens=True,
            ),
            inductor_config.patch(custom_partitioner_fn=_PARTITION),
        ):
            return calling_after(compiler(graph, inputs), calls)
    finally:
        CHOSEN.reset(chosen)


class _Partition(CustomPartitionerFn):
    def __call__(
        self, gm: GraphModule, joint_inputs: Sequence[object], **kwargs: Any
    ) -> tuple[GraphModule, GraphModule]:
        return partition(gm, joint_inputs, **kwargs)

    def uuid(self) -> str:
        """Return a key that distinguishes our graphs from those of other backends or versions.

        The key includes the rank, which torch's own key lacks, because the local shard of a DTensor
        depends on the rank.
        """
        return f"torch_google.tpu 7{_rank()}"


def _rank() -> str:
    if not (dist.is_available() and dist.is_initialized()):
        return ""
    return f", rank {dist.get_rank()} of {dist.get_world_size()}"


_PARTITION = _Partition()
