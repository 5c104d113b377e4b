# SPDX-License-Identifier: Apache-2.0
"""A function, a module or an exported program of torch as StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes
from torch_google.tpu.compile.evaluation import Evaluation
from torch_google.tpu.compile.graph_signature import draws
from torch_google.tpu.compile.symbolic_export import stablehlo
from torch_google.tpu.compile.symbols import Symbols
from torch_google.tpu.program.graph_tracing import as_meta, trace_function


def export_stablehlo(
    function: Callable[..., Any] | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> str:
    """Return StableHLO, as text, for arguments of such shapes and dtypes, on any device.

    The inputs are the parameters and buffers of a module, in the order of their names in it, then
    the tensors of `args` and `kwargs`, used or not; then, where the function is random, a key of
    JAX. Numbers are constants. The dimensions of an exported program that are dynamic are so in
    StableHLO, and `args` say nothing.

    The results are those of the function. What it writes to its inputs, as batch norm does to its
    statistics and a model to its cache, is lost: return the written tensor as well to have it.

    Products have the precision that holds in this thread, as `torch.tpu.precision` says.

    Raises NotImplementedError for what nothing lowers.
    """
    precision = torch.tpu.get_precision()
    with nullcontext() if precision == "default" else jax.default_matmul_precision(precision):
        return _exported(function, args, kwargs)


def _exported(
    function: Callable[..., Any] | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
) -> str:
    if isinstance(function, ExportedProgram) and function.range_constraints:
        return stablehlo(function)
    called = function.module() if isinstance(function, ExportedProgram) else function
    state: dict[str, torch.Tensor] = {}
    if isinstance(called, torch.nn.Module):
        state = {**dict(called.named_parameters()), **dict(called.named_buffers())}
    leaves, structure = pytree.tree_flatten((state, tuple(args), dict(kwargs or {})))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*values: Any) -> list[Any]:
        filled = list(leaves)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        held, given, named = pytree.tree_unflatten(filled, structure)
        if isinstance(called, torch.nn.Module):
            return pytree.tree_leaves(torch.func.functional_call(called, held, given, named))
        return pytree.tree_leaves(called(*given, **named))

    name = getattr(called, "__name__", type(called).__name__)
    graph = trace_function(call, [as_meta(leaves[place]) for place in places], name, writes=False)

    def evaluated(arrays: Sequence[Any], key: Any) -> Any:
        return list(Evaluation(graph, Symbols([], []), key).run(arrays))

    shapes = [
        jax.ShapeDtypeStruct(leaves[place].shape, dtypes.to_jax(leaves[place].dtype))
        for place in places
    ]
    # JAX has no int64 of its own accord, and the device, which asks for it, may not have started.
    with jax.enable_x64(True):
        key = jax.eval_shape(lambda: jax.random.key(0)) if draws(graph) else None
        return str(jax.jit(evaluated, keep_unused=True).lower(shapes, key).as_text())
