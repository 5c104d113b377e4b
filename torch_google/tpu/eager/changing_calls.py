# SPDX-License-Identifier: Apache-2.0
"""Notes the sizes of calls that have no program yet, to find the sizes that keep changing.

Sizes are noted before the compile cache is read, in every process, so that the cache does not
affect which calls are padded. So this module does not load torch's tracers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, dtypes
from torch_google.tpu.eager.normalized_call import NormalizedCall, is_constant
from torch_google.tpu.eager.size_patterns import (
    CallSizes,
    SizeHistory,
    SizePattern,
    TensorLayout,
)
from torch_google.tpu.program import Number
from torch_google.tpu.runtime.precision import get_precision

# This many operator calls are a round even if the host reads no value.
_LONGEST_ROUND = 16384


@dataclass(frozen=True)
class ChangingCall:
    """A call whose sizes keep changing.

    `kind` is everything that its program depends on, except sizes.
    """

    kind: Hashable
    sizes: CallSizes
    pattern: SizePattern


_histories: dict[Hashable, SizeHistory] = {}


def note(call: NormalizedCall) -> ChangingCall | None:
    """Note the sizes of a call. Return None if they are not known to change.

    Empty tensors of changing sizes, and tensors that are distributed, reinterpret their storage, or
    have a lazy conj or neg bit, are not supported.
    """
    kind = _kind(call)
    if kind is None:
        return None
    sizes = _sizes(call)
    round_ = _C.round_number(), _C.counts()[0] // _LONGEST_ROUND
    pattern = _histories.setdefault(kind, SizeHistory()).pattern(sizes, round_)
    if pattern is None or any(0 in call.views[index].sizes for index in pattern.tensors):
        return None
    return ChangingCall(kind, sizes, pattern)


def forget() -> None:
    """Forget all sizes."""
    _histories.clear()


def _kind(call: NormalizedCall) -> Hashable | None:
    """Return all that a call's program depends on, except for sizes. None if not supported."""
    if call.op.namespace != "aten":
        return None
    for view, base in zip(call.views, call.bases, strict=True):
        if base[3] or view.conj or view.neg or view.dtype != base[1]:
            return None
    written = [call.bases[index][2] for index in call.written()]
    if len(set(written)) != len(written):
        return None
    boxes = list(dict.fromkeys(base[2] for base in call.bases))
    symbolic = size_arguments(call.op)

    def word(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            is_number = leaf.device.type == "cpu"
            return (
                str(leaf.dtype),
                leaf.dim(),
                leaf.tolist() if _value_is_in_key(leaf) else is_number,
            )
        if isinstance(leaf, Number):
            return type(leaf.value).__name__
        return "generator" if isinstance(leaf, torch.Generator) else repr(leaf)

    arguments = []
    for argument, value in zip(call.op._schema.arguments, call.args, strict=True):
        is_size = argument.name in symbolic
        arguments.append(
            tuple(
                "size" if is_size and isinstance(leaf, int) else word(leaf)
                for leaf in pytree.tree_leaves(value)
            )
        )
    shared = tuple(boxes.index(base[2]) for base in call.bases)
    return call.op.name(), tuple(arguments), shared, get_precision(), str(dtypes.default_dtype())


def _sizes(call: NormalizedCall) -> CallSizes:
    values: list[int] = []
    owners: list[int] = []
    for index, view in enumerate(call.views):
        values += view.sizes
        owners += [index] * len(view.sizes)
    for argument, value in zip(call.op._schema.arguments, call.args, strict=True):
        if argument.name in size_arguments(call.op):
            given = pytree.tree_leaves(value)
            values += [size for size in given if isinstance(size, int)]
            owners += [-1] * sum(isinstance(size, int) for size in given)
    layouts = tuple(
        TensorLayout(view.strides, view.offset, base[0])
        for view, base in zip(call.views, call.bases, strict=True)
    )
    padded = tuple(map(_C.is_padded, call.tensors))
    storages = tuple(StorageWeakRef(tensor.untyped_storage()) for tensor in call.tensors)
    return CallSizes(tuple(values), tuple(owners), layouts, padded, storages)


@cache
def size_arguments(op: OpOverload) -> frozenset[str]:
    """Return the names of an operator's integer arguments that are sizes or positions."""
    names = frozenset(re.findall(r"SymInt(?:\[\d*\])?\??\s+(\w+)", str(op._schema)))
    if op.name().startswith("aten::arange"):
        names |= {"start", "end"}
    return names


def _value_is_in_key(leaf: torch.Tensor) -> bool:
    """Return whether the value of a CPU scalar is part of the key."""
    return leaf.device.type == "cpu" and is_constant(leaf)
