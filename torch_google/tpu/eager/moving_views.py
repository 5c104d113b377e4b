# SPDX-License-Identifier: Apache-2.0
"""Avoids compiling a program for every i in x[i], and for other views with changing offsets.

Normally, a view's offset is a constant in the program, which is fastest. Most offsets never change,
such as those of the views that split a weight into three parts. But if the same call has had
several offsets, the operator runs on copies of its views. Separate programs, which take the offset
as an input, copy each view out of the storage and write it back. An offset that keeps recurring,
such as that of a time step in a recurrent network, still gets its own program.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from torch_google.tpu.eager.normalized_call import Base, NormalizedCall
from torch_google.tpu.program import Number
from torch_google.tpu.runtime.strides import View, contiguous, is_plain

# The first offsets of a call, up to this number, get their own programs on first use.
_MOST_PLACES = 8
# Any later offset gets its own program once it has been used this many times.
_OFTEN = 4
# A call's counts are reset once it has occurred with more offsets than this.
_COUNTED = 4096


@dataclass(frozen=True)
class ViewBlock:
    """A view that is a rectangular block of contiguous storage.

    `dimensions` maps each dimension of the view to one of the storage, or to -1 if its size is 1.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    dimensions: tuple[int, ...]

    @staticmethod
    def of(view: View, base: Base) -> ViewBlock | None:
        """Return the block that a view covers, or None if this class cannot represent the view.

        This class cannot represent a view that is empty, covers the whole storage, is not
        rectangular, or reinterprets the elements (dtype, conj or neg).
        """
        shape, dtype, *_ = base
        if dtype != view.dtype or view.conj or view.neg or 0 in (*view.sizes, *shape):
            return None
        if is_plain(shape, view):
            return None
        steps = contiguous(shape)
        sizes = [1] * len(shape)
        dimensions = []
        for size, stride in zip(view.sizes, view.strides, strict=True):
            matching = [d for d, step in enumerate(steps) if step == stride and shape[d] > 1]
            if size > 1 and (not matching or sizes[matching[0]] > 1):
                return None
            dimensions.append(matching[0] if size > 1 else -1)
            if size > 1:
                sizes[matching[0]] = size
        for length, size, step in zip(shape, sizes, steps, strict=True):
            if view.offset // step % length + size > length:
                return None
        return ViewBlock(tuple(shape), tuple(sizes), tuple(dimensions))

    def storage(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the view's whole storage as a tensor."""
        return tensor.as_strided(self.shape, contiguous(self.shape), 0)

    def seen(self, values: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
        """Return `values`, a copy of the block, as a tensor with the sizes of the view."""
        steps = contiguous(self.sizes)
        return values.as_strided(sizes, [1 if d < 0 else steps[d] for d in self.dimensions])


def run(op: OpOverload, call: NormalizedCall, describe: Callable[[], str]) -> list[Any] | None:
    """Run a call on copies of its views if their offsets keep changing, and return its results.

    Returns None if the call must be compiled instead. `describe` returns a description of the call
    without the offsets of its views.
    """
    blocks = _blocks(op, call)
    if blocks is None or not _count(call, describe):
        return None
    return _run(op, call, blocks)


def note(op: OpOverload, call: NormalizedCall, describe: Callable[[], str]) -> None:
    """Count the offsets of a call whose program is in the compile cache.

    Otherwise, this process would compile more programs for the call, although its offsets kept
    changing in the process that filled the cache.
    """
    if _blocks(op, call) is not None:
        _count(call, describe)


def _blocks(op: OpOverload, call: NormalizedCall) -> list[ViewBlock | None] | None:
    """Return the block of each tensor, or None if the call cannot run on copies of its views.

    The list has None for a tensor that ViewBlock cannot represent.
    """
    if op.namespace == "torch_google" or call.pure.dropped:
        return None  # `op` itself works on blocks, or it has out= arguments, which may be resized
    blocks = [ViewBlock.of(view, base) for view, base in zip(call.views, call.bases, strict=True)]
    stores = [call.bases[index][2] for index in call.written()]
    return blocks if any(blocks) and len({*stores}) == len(stores) else None


def _count(call: NormalizedCall, describe: Callable[[], str]) -> bool:
    """Count a call's offsets, and return whether the call should run on copies of its views."""
    counts = _places[describe()]
    places = tuple(view.offset for view in call.views)
    if len(counts) > _COUNTED:
        counts.clear()
    counts[places] += 1
    return len(counts) > _MOST_PLACES and counts[places] < _OFTEN


def _run(op: OpOverload, call: NormalizedCall, blocks: Sequence[ViewBlock | None]) -> list[Any]:
    from torch_google.tpu.lowerings import view_blocks as _  # noqa: F401 - defines the operators

    ops = torch.ops.torch_google
    values = [
        block and ops.block(block.storage(tensor), block.sizes, tensor.storage_offset())
        for block, tensor in zip(blocks, call.tensors, strict=True)
    ]
    inputs = [
        tensor if block is None or value is None else block.seen(value, tensor.shape)
        for block, tensor, value in zip(blocks, call.tensors, values, strict=True)
    ]
    rest = iter(inputs)

    def replaced(leaf: Any) -> Any:
        if isinstance(leaf, Number):
            return leaf.value
        return next(rest) if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu" else leaf

    arguments = op._schema.arguments
    filled = [pytree.tree_map(replaced, arg) for arg in call.args]
    results = op(
        *(v for a, v in zip(arguments, filled, strict=True) if not a.kwarg_only),
        **{a.name: v for a, v in zip(arguments, filled, strict=True) if a.kwarg_only},
    )
    for index in call.written():
        block, value = blocks[index], values[index]
        if block is not None:
            ops.place_(
                block.storage(call.tensors[index]), value, call.tensors[index].storage_offset()
            )
    own = {id(mine): tensor for mine, tensor in zip(inputs, call.tensors, strict=True)}

    def returned(leaf: Any) -> Any:
        return own.get(id(leaf), leaf)

    if len(op._schema.returns) == 1:
        return [pytree.tree_map(returned, results)]
    return [pytree.tree_map(returned, result) for result in results or ()]


# For each call, the number of times that it has occurred with each combination of offsets.
_places: defaultdict[str, Counter[tuple[int, ...]]] = defaultdict(Counter)
