# SPDX-License-Identifier: Apache-2.0
"""Traces an operator on meta tensors into a pure graph of operators that have lowerings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.utils import _pytree as pytree

from torch_google.tpu.program.decompositions import Decompositions, decompositions
from torch_google.tpu.program.functional_form import declared, functional_of
from torch_google.tpu.program.number import BakedNumber, Number
from torch_google.tpu.release import prepare_symbols
from torch_google.tpu.tracing_lock import tracing


class HostRead(NotImplementedError):
    """Raised if tracing an operator reads a tensor's values, so the operator cannot be compiled."""


def trace(
    op: OpOverload | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> GraphModule:
    """Return the graph of an operator. Tensors in `args` and `kwargs` may be on any device.

    The graph's inputs are the tensors and the Numbers, in the order of pytree.tree_leaves. The
    graph returns its results as one flat list.

    Raises BakedNumber if the graph depends on a Number's value, and HostRead if torch reads a
    tensor's values.
    """
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
    inputs = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor | Number)]

    def function(*values: Any) -> list[Any]:
        filled = list(leaves)
        for i, value in zip(inputs, values, strict=True):
            filled[i] = value
        filled_args, filled_kwargs = pytree.tree_unflatten(filled, structure)
        result = op(*filled_args, **filled_kwargs)
        return pytree.tree_leaves(result)

    return trace_function(function, [as_meta(leaves[i]) for i in inputs], name_of(op))


def trace_function(
    function: Callable[..., list[Any]], inputs: Sequence[Any], name: str, *, writes: bool = True
) -> GraphModule:
    """Trace a function on meta tensors and Numbers into a graph of operators that have lowerings.

    The graph is pure, so by default a function that mutates an input is rejected. If `writes` is
    False, such mutations are allowed but dropped: later reads in the function see the new values,
    but the graph does not copy them to the input.
    """
    prepare_symbols()
    shapes = ShapeEnv()
    values = [_symbol(v, shapes) if isinstance(v, Number) else v for v in inputs]
    more = {} if writes else declared()
    try:
        included = torch._C._dispatch_tls_local_include_set() | _INCLUDED
        with torch.no_grad(), torch._C._ForceDispatchKeyGuard(included, _EXCLUDED):
            graph = _decomposed(function, values, {**decompositions(), **more})
            circular: frozenset[OpOverload] = frozenset()
            while written := _written(graph):  # a decomposition writes to a tensor that it created
                if written <= circular:
                    raise NotImplementedError(
                        f"tpu: no lowering for {', '.join(sorted(op.name() for op in written))}, "
                        f"which torch decomposes into writing variants, for {name}. "
                        "Write one with torch_google.tpu.lowering in your program"
                    )
                circular |= written
                pure = _pure(graph, values)
                if not writes:
                    _leave_out_writes(pure)
                graph = _decomposed(pure, values, decompositions(circular=circular))
    except GuardOnDataDependentSymNode as error:
        if not any(isinstance(v, Number) for v in inputs):
            raise
        raise BakedNumber(f"tpu: {name} depends on the value of a number: {error}") from error
    except RuntimeError as error:
        absent = _NO_KERNEL.search(str(error))
        if absent is not None and not absent[0].endswith("aten::_local_scalar_dense"):
            missing = absent["tried"] or absent["called"]
            raise NotImplementedError(no_lowering({missing: kinds_of(inputs)}, name)) from error
        if not any(phrase in str(error).lower() for phrase in _READS):
            raise
        raise HostRead(
            f"tpu: {name} reads the values of a tensor while it is traced. Lower it with "
            "torch_google.tpu.lowering(..., host_shape=True), or run its composite kernel"
        ) from error
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def no_lowering(absent: Mapping[str, str], part_of: str = "") -> str:
    """Return the error text for operators without a lowering.

    `absent` maps the operators' names to the dtypes of their tensors. `part_of` is the operator
    that decomposes into them.
    """
    named = "; ".join(f"{name} ({dtypes})" for name, dtypes in sorted(absent.items()))
    of = "" if part_of in ("", *absent) else f", part of torch's decomposition of {part_of}"
    line = f'@torch_google.tpu.lowering("{min(absent)}")'
    return (
        f"tpu: no lowering for {named}{of}. Write one in your program: {line} above a function of "
        "jax arrays that has the operator's arguments"
    )


def kinds_of(values: Sequence[Any]) -> str:
    """Return the dtypes of the tensors in `values`, formatted for an error message."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return ", ".join(str(t.dtype).removeprefix("torch.") for t in tensors) or "no tensors"


def as_meta(value: Any) -> Any:
    """Return a new meta tensor for a tensor, and any other value unchanged.

    Each call returns a new tensor, because tracing would merge two inputs that are the same tensor.
    """
    if not isinstance(value, torch.Tensor):
        return value
    meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if value.is_conj():
        meta = meta.conj()
    return torch._neg_view(meta) if value.is_neg() else meta


def name_of(op: OpOverload | Callable[..., Any]) -> str:
    return op.name() if isinstance(op, OpOverload) else getattr(op, "__name__", repr(op))


# Decompose and functionalize in separate steps: in torch 2.13, the process crashes if functionalize
# is combined with decompositions into the views in the prims namespace.
def _decomposed(
    function: Callable[..., Any], values: Sequence[Any], table: Decompositions
) -> GraphModule:
    tracer = make_fx(function, decomposition_table=table, _error_on_data_dependent_ops=True)
    with tracing():
        return tracer(*values)


def _pure(graph: GraphModule, values: Sequence[Any]) -> GraphModule:
    with tracing():
        return make_fx(torch.func.functionalize(graph))(*values)


def _leave_out_writes(pure: GraphModule) -> None:
    """Remove the copies to mutated inputs that functionalize appends to a graph."""
    for node in pure.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        pure.graph.erase_node(node)
    pure.recompile()


def _written(graph: GraphModule) -> frozenset[OpOverload]:
    """Return the pure variants of those operators in a graph that mutate an argument."""
    targets = {node.target for node in graph.graph.nodes if isinstance(node.target, OpOverload)}
    return frozenset(functional_of(op) for op in targets if op._schema.is_mutable)


def _symbol(number: Number, shapes: ShapeEnv) -> torch.SymFloat | torch.SymInt:
    if isinstance(number.value, float):
        return shapes.create_unbacked_symfloat()
    return shapes.create_unbacked_symint()


def _keys(*names: str) -> torch._C.DispatchKeySet:
    keys = torch._C.DispatchKeySet(DispatchKey.Undefined)
    for name in names:
        keys = keys.add(getattr(DispatchKey, name))
    return keys


# Trace with the dispatch keys that a thread has outside any kernel. Inside a kernel, functionalize
# has no effect.
_INCLUDED = _keys("BackendSelect", "ADInplaceOrView")
_EXCLUDED = _keys(*(name for name in dir(DispatchKey) if name.startswith("Autocast")))

# Extracts the operator's name from torch's error about a missing meta kernel.
_NO_KERNEL = re.compile(
    r"(?P<tried>[\w:.]+): attempted to run this operator with Meta tensors"
    r"|Could not run '(?P<called>[\w:.]+)'(?= with arguments from the 'Meta' backend)"
)
# Phrases in the errors that torch raises if a traced function reads a tensor's values.
_READS = ("meta tensor", "value out of a tracing tensor", "data-dependent")
