# SPDX-License-Identifier: Apache-2.0
"""A function, a module or an exported program of torch as StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from torch_google.tpu import dtypes
from torch_google.tpu.compile.compiled import lower_for


def export_stablehlo(
    function: Callable[..., Any] | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
) -> str:
    """Return StableHLO, as text, for arguments of such shapes and dtypes.

    The inputs are the parameters and buffers of a module, in the order of their names in it, then
    the tensors of `args` and `kwargs`; then, where the function is random, a key of JAX. Numbers
    are constants. Raises NotImplementedError for what nothing lowers.
    """
    called = function.module() if isinstance(function, ExportedProgram) else function
    state: dict[str, torch.Tensor] = {}
    if isinstance(called, torch.nn.Module):
        state = {**dict(called.named_parameters()), **dict(called.named_buffers())}
    leaves, structure = pytree.tree_flatten((state, tuple(args), dict(kwargs or {})))

    def call(*values: Any) -> Any:
        held, given, named = pytree.tree_unflatten(values, structure)
        if isinstance(called, torch.nn.Module):
            return torch.func.functional_call(called, held, given, named)
        return called(*given, **named)

    name = getattr(called, "__name__", type(called).__name__)
    program = lower_for(call, leaves, name)
    shapes = [
        jax.ShapeDtypeStruct(leaf.shape, dtypes.to_jax(leaf.dtype))
        for leaf in leaves
        if isinstance(leaf, torch.Tensor)
    ]
    key = jax.eval_shape(lambda: jax.random.key(0)) if program.random else None
    return str(jax.jit(program).lower(shapes, key).as_text())
