# SPDX-License-Identifier: Apache-2.0
"""Writes that torch refuses on the CPU, as memory there would be written twice or read too late."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._ops import OpOverload

from torch_google.tpu.runtime.strides import View, natural

# Writing the same value twice is as good as once.
_IDEMPOTENT = frozenset({"aten::fill_", "aten::zero_"})

# Operators, beside the elementwise ones, whose kernels look; and those that may not write to what they
# read at all, as they move elements.
_LOOK = frozenset({"aten::bernoulli", "aten::bernoulli_", "aten::copy_"})
_MOVE = frozenset({"aten::cat", "aten::index_select", "aten::masked_select", "aten::take"})


def check(
    op: OpOverload, views: Sequence[View], storages: Sequence[int], written: Sequence[int]
) -> None:
    """Raise RuntimeError in torch's own words for an operator that torch would refuse.

    `storages` says of each tensor which storage it lies in; `written` are positions.
    """
    if op._schema.name in _IDEMPOTENT:
        return
    moves = op._schema.name in _MOVE
    if not (moves or torch.Tag.pointwise in op.tags or op._schema.name in _LOOK):
        return
    for target in written:
        view = views[target]
        if 0 in view.sizes:
            continue
        if any(size > 1 and step == 0 for size, step in zip(view.sizes, view.strides, strict=True)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation."
            )
        for other, storage in enumerate(storages):
            if storage != storages[target] or other == target:
                continue
            if _partly(view, views[other]) or (moves and view == views[other]):
                raise RuntimeError(
                    "unsupported operation: some elements of the input tensor and the written-to "
                    "tensor refer to a single memory location. Please clone() the tensor before "
                    "performing the operation."
                )


def _partly(one: View, other: View) -> bool:
    if one == other or 0 in (*one.sizes, *other.sizes):
        return False
    if not (_is_dense(one) and _is_dense(other)):
        return False
    return one.offset < other.offset + _size(other) and other.offset < one.offset + _size(one)


def _is_dense(view: View) -> bool:
    return natural(view.sizes, view.strides).strides == view.strides


def _size(view: View) -> int:
    size = 1
    for length in view.sizes:
        size *= length
    return size
