# SPDX-License-Identifier: Apache-2.0
"""torch's decompositions, for operators without a lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions, global_decomposition_table
from torch._ops import OpOverload

from torch_google.tpu import lowerings

Decompositions = Mapping[OpOverload, Callable[..., Any]]


def decompositions(*, circular: frozenset[OpOverload] = frozenset()) -> Decompositions:
    """Return torch's decompositions for all operators that we do not lower ourselves.

    `circular` lists operators whose C++ kernels only call the operators' own in-place variants.
    Such kernels are not used as decompositions.
    """
    table = _decompositions(lowerings.names())
    useless = {op for op in circular if isinstance(table.get(op), partial)}
    return {op: f for op, f in table.items() if op not in useless}


@cache
def _decompositions(lowered: frozenset[str]) -> Decompositions:
    table: dict[OpOverload, Callable[..., Any]] = {}
    for op in _operators():
        if op.has_kernel_for_dispatch_key(DispatchKey.CompositeExplicitAutograd) and not _views(op):
            table[op] = partial(_composite, op)
    for known in (global_decomposition_table["post_autograd"], core_aten_decompositions()):
        table.update({op: f for op, f in known.items() if isinstance(op, OpOverload)})
    return {op: f for op, f in table.items() if op.name() not in lowered}


def _operators() -> list[OpOverload]:
    operators = []
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            # Some names exist only in TorchScript; torch.ops has no overload for them.
            op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if isinstance(op, OpOverload):
                operators.append(op)
    return operators


def _views(op: OpOverload) -> bool:
    return any(result.alias_info is not None for result in op._schema.returns)


def _composite(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Run the C++ composite kernel, so that the operators that it calls are traced."""
    return op._op_dk(DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
