# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile with torch v2.6, whose AOTAutograd keeps graphs of inductor only.

As aot.py, but a process traces each graph anew. Its programs come from the compile cache as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from torch_google.tpu.compile.compiled import CHOSEN, Compiled
from torch_google.tpu.compile.joint import known, partition
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
    chosen = parse(mode, options)
    compiler = aot_autograd(
        fw_compiler=partial(_compile, chosen, forward=True),
        bw_compiler=partial(_compile, chosen, backward=True),
        inference_compiler=partial(_compile, chosen, inference=True),
        decompositions=dict(known()),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    made: Callable[..., Any] = compiler(graph, inputs)
    return made


def _compile(chosen: Options, graph: GraphModule, inputs: Sequence[Any], **part: bool) -> Compiled:
    """Compile one graph; the backward one comes when the gradient is first wanted."""
    token = CHOSEN.set(chosen)
    try:
        return Compiled(graph, inputs, **part)
    finally:
        CHOSEN.reset(token)
