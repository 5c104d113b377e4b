# SPDX-License-Identifier: Apache-2.0
"""Builds the program for a single operator from its lowering or from its decomposition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes, lowerings
from torch_google.tpu.lowerings import Lowering
from torch_google.tpu.program import interpreter
from torch_google.tpu.program.graph_tracing import as_meta, trace
from torch_google.tpu.program.interpreter import LoweredProgram, lower_graph
from torch_google.tpu.program.number import Number, accepted_arguments
from torch_google.tpu.release import prepare_symbols


def lower_op(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> LoweredProgram:
    """Return the program for a pure operator (see `functional_of`) and these arguments.

    Only the shapes, strides and dtypes of tensors in `args` and `kwargs` are used, so they may be
    on any device. The program's inputs are the tensors and the Numbers, in the order of
    pytree.tree_leaves((args, kwargs)). The program returns its results as one flat list.

    Raises a NotImplementedError naming the operators without a lowering, if any. Raises BakedNumber
    if the program depends on a Number's value, and torch's own errors for invalid arguments.
    Calling the program raises RuntimeError if torch's default dtype has changed since the program
    was created.
    """
    dtypes.check_default(op.name())
    kwargs = dict(kwargs or {})
    if "generator" in kwargs:
        kwargs["generator"] = None  # meta tensors accept no generator of another device
    if any(argument.name == "device" for argument in op._schema.arguments):
        kwargs["device"] = torch.device("meta")
    lowering = lowerings.find(op)
    if lowering is not None:
        return _direct(op, lowering, tuple(args), kwargs)
    program = lower_graph(trace(op, args, kwargs), part_of=op.name())
    return replace(program, metas=tuple(lowerings.laid_out(op.name(), program.metas, args, kwargs)))


def _direct(
    op: OpOverload, lowering: Lowering, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> LoweredProgram:
    leaves, structure = pytree.tree_flatten((args, kwargs))
    inputs = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor | Number)]
    on_host = lowering.on_host(args, kwargs)

    def call(arrays: Sequence[Any], key: Any, meta: Any) -> Any:
        filled = list(leaves)
        for i, array in zip(inputs, arrays, strict=True):
            filled[i] = array
        filled_args, filled_kwargs = pytree.tree_unflatten(filled, structure)
        return interpreter.run(lowering, op, filled_args, filled_kwargs, meta, key)

    try:
        meta = _meta_results(op, leaves, structure, on_host)
    except DynamicOutputShapeException:
        # In torch v2.6, some meta kernels do not support symbolic sizes, so the results are
        # unknown.
        meta = _ANY
    except NotImplementedError:
        # There is no meta kernel, so use the shapes and dtypes that the lowering returns.
        meta = _own_results(call, [leaves[i] for i in inputs])
    if not on_host:
        meta = lowerings.laid_out(op.name(), meta, args, kwargs)

    def function(arrays: Sequence[Any], key: Any) -> list[Any]:
        result = call(arrays, key, meta)
        return pytree.tree_leaves(result)

    metas = tuple(pytree.tree_leaves(meta))
    return LoweredProgram(function, metas, lowering.random, on_host)


def _own_results(call: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    shapes = [
        leaf.value
        if isinstance(leaf, Number)
        else jax.ShapeDtypeStruct(leaf.shape, dtypes.to_jax(leaf.dtype))
        for leaf in inputs
    ]
    results = jax.eval_shape(lambda arrays, key: call(arrays, key, _ANY), shapes, jax.random.key(0))
    return pytree.tree_map(
        lambda r: torch.empty(r.shape, dtype=dtypes.to_torch(r.dtype), device="meta"), results
    )


def _meta_results(op: OpOverload, leaves: Sequence[Any], structure: Any, host_shape: bool) -> Any:
    """Run the operator's meta kernel. Sizes that depend on tensor values are symbolic."""
    metas = [leaf.value if isinstance(leaf, Number) else as_meta(leaf) for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(metas, structure)
    args = accepted_arguments(op, args, "meta")
    with torch.no_grad():
        if not host_shape:
            return op(*args, **kwargs)
        prepare_symbols()
        mode = FakeTensorMode(
            shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True), allow_non_fake_inputs=True
        )
        with mode:
            return op(*args, **kwargs)


# A sentinel for unknown meta results. The lowering's results are then not checked or cast.
_ANY = object()
