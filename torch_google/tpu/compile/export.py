# SPDX-License-Identifier: Apache-2.0
"""Exports a function, a module or an exported program to StableHLO."""

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
from torch_google.tpu.target_platform import PLATFORMS, tracing_for


def export_stablehlo(
    function: Callable[..., Any] | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    platforms: Sequence[str] | None = None,
) -> str:
    """Return the StableHLO text of a function for arguments with these shapes and dtypes.

    The arguments may be on any device. The inputs of the program are a module's parameters and
    buffers, in the order of their names, and then the tensors in `args` and `kwargs`, whether or
    not the program uses them. If the function draws random numbers, the last input is a JAX key.
    Numbers become constants. The dynamic dimensions of an exported program stay dynamic in
    StableHLO, and `args` is ignored.

    The program returns the function's results. In-place updates to inputs are lost, such as batch
    norm's updates to its running statistics or a model's updates to its cache. To keep an updated
    tensor, return it as well. Errors that depend on values are also lost, such as the error that
    `torch.linalg.cholesky` raises for a matrix that is not positive definite.

    Matmuls use this thread's precision, as set with `torch.tpu.precision`.

    `platforms` contains the platform that the text is for: `("tpu",)`, `("cuda",)` or `("cpu",)`.
    The default is this process's platform. Any other platform need not be available on this
    machine. The text may contain calls that exist only on its platform, such as calls to LAPACK on
    the CPU.

    Raises NotImplementedError if an operator has no lowering, ValueError for other values of
    `platforms`, and RuntimeError if the platform lacks an argument's dtype.
    """
    platform = _only(platforms)
    precision = torch.tpu.get_precision()
    with (
        nullcontext() if precision == "default" else jax.default_matmul_precision(precision),
        tracing_for(platform),
    ):
        return _exported(function, args, kwargs, platform)


def _drop_checks(graph: torch.fx.GraphModule) -> None:
    """Remove nodes that check values, because a program cannot raise errors."""
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten._linalg_check_errors.default:
            graph.graph.erase_node(node)


def _only(platforms: Sequence[str] | None) -> str | None:
    """Return the platform to lower for, or None for this process's platform."""
    if platforms is None:
        return None
    names = [platforms] if isinstance(platforms, str) else list(platforms)
    if len(names) != 1 or names[0] not in PLATFORMS:
        raise ValueError(
            f"tpu: export_stablehlo: platforms={platforms!r}; name one of {', '.join(PLATFORMS)}, as "
            "in platforms=('tpu',)"
        )
    return names[0]


def _exported(
    function: Callable[..., Any] | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    platform: str | None,
) -> str:
    if isinstance(function, ExportedProgram) and function.range_constraints:
        return stablehlo(function, platform)
    called = function.module() if isinstance(function, ExportedProgram) else function
    state: dict[str, torch.Tensor] = {}
    if isinstance(called, torch.nn.Module):
        state = {**dict(called.named_parameters()), **dict(called.named_buffers())}
    leaves, structure = pytree.tree_flatten((state, tuple(args), dict(kwargs or {})))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def call(*values: Any) -> list[Any]:
        arguments = list(leaves)
        for index, value in zip(places, values, strict=True):
            arguments[index] = value
        state_values, positional, keywords = pytree.tree_unflatten(arguments, structure)
        if isinstance(called, torch.nn.Module):
            return pytree.tree_leaves(
                torch.func.functional_call(called, state_values, positional, keywords)
            )
        return pytree.tree_leaves(called(*positional, **keywords))

    name = getattr(called, "__name__", type(called).__name__)
    graph = trace_function(call, [as_meta(leaves[i]) for i in places], name, writes=False)
    _drop_checks(graph)

    def evaluated(arrays: Sequence[Any], key: Any) -> Any:
        return list(Evaluation(graph, Symbols([], []), key).run(arrays))

    if platform is not None:
        for index in places:
            dtypes.check(leaves[index].dtype, platform)
    lowered_for = None if platform is None else (platform,)
    shapes = [
        jax.ShapeDtypeStruct(leaves[index].shape, dtypes.to_jax(leaves[index].dtype))
        for index in places
    ]
    # The runtime enables JAX's 64-bit types when it initializes the backend, which may not have
    # happened yet.
    with jax.enable_x64(True):
        key = jax.eval_shape(lambda: jax.random.key(0)) if draws(graph) else None
        traced = jax.jit(evaluated, keep_unused=True).trace(shapes, key)
        return str(traced.lower(lowering_platforms=lowered_for).as_text())
