# SPDX-License-Identifier: Apache-2.0
"""Rejects writes to tensors that overlap themselves or an input, if the CPU rejects them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
from torch._ops import OpOverload

from torch_google.tpu.runtime.strides import View, natural

# Operators that give the same result if they write to an element several times, so the elements of
# the output tensor may overlap.
_IDEMPOTENT = frozenset({"aten::fill_", "aten::threshold_", "aten::zero_"})

# Operators that check for overlap, in addition to the elementwise ones.
_LOOK = frozenset(
    {
        "aten::__ilshift__",
        "aten::__irshift__",
        "aten::addr",
        "aten::addr_",
        "aten::arange",
        "aten::bernoulli",
        "aten::bernoulli_",
        "aten::cauchy_",
        "aten::copy_",
        "aten::cumprod",
        "aten::cumprod_",
        "aten::cumsum",
        "aten::cumsum_",
        "aten::exponential_",
        "aten::geometric_",
        "aten::hardswish",
        "aten::hardswish_",
        "aten::leaky_relu",
        "aten::leaky_relu_",
        "aten::linspace",
        "aten::log_normal_",
        "aten::masked_scatter_",
        "aten::mm",
        "aten::mse_loss",
        "aten::normal_",
        "aten::random_",
        "aten::renorm",
        "aten::renorm_",
        "aten::rrelu_with_noise",
        "aten::rrelu_with_noise_",
        "aten::uniform_",
    }
)

# Operators that check only whether their output overlaps itself.
_LOOK_AT_THE_RESULT = frozenset({"aten::addmm_", "aten::log_sigmoid_forward", "aten::mean"})

# Operators that move elements, so they must not write to a tensor that they also read.
_MOVE = frozenset(
    {
        "aten::_index_put_impl_",
        "aten::cat",
        "aten::gather",
        "aten::index_add",
        "aten::index_add_",
        "aten::index_copy",
        "aten::index_copy_",
        "aten::index_fill_",
        "aten::index_put_",
        "aten::index_reduce",
        "aten::index_reduce_",
        "aten::index_select",
        "aten::kthvalue",
        "aten::masked_select",
        "aten::put_",
        "aten::scatter",
        "aten::scatter_",
        "aten::scatter_add",
        "aten::scatter_add_",
        "aten::scatter_reduce",
        "aten::scatter_reduce_",
        "aten::take",
    }
)

# Operators in _MOVE that start from a copy of the first argument, so they may write to that
# argument.
_CHANGE = frozenset(
    {
        "aten::index_add",
        "aten::index_copy",
        "aten::index_reduce",
        "aten::scatter",
        "aten::scatter_add",
        "aten::scatter_reduce",
    }
)

# Operators that warn, instead of raising an error, if they write to an element more than once.
_WARN = frozenset(
    {"aten::_index_put_impl_", "aten::index_fill_", "aten::index_put_", "aten::masked_fill_"}
)


class Overlap(RuntimeError):
    """A write that torch rejects, with the message of torch's RuntimeError."""


def check(
    op: OpOverload, views: Sequence[View], storages: Sequence[int], written: Sequence[int]
) -> None:
    """Raise Overlap or warn, with torch's message, for a write that torch rejects or warns about.

    `storages` lists each tensor's storage; `written` lists the indices of the tensors to write to.
    """
    name = op._schema.name
    if name in _IDEMPOTENT:
        return
    moves = name in _MOVE
    reads = moves or name in _LOOK or name in _WARN or _is_elementwise(name)
    if not (reads or name in _LOOK_AT_THE_RESULT):
        return
    for target in written:
        view = views[target]
        if 0 in view.sizes:
            continue
        if any(size > 1 and step == 0 for size, step in zip(view.sizes, view.strides, strict=True)):
            if name not in _WARN:
                raise Overlap(
                    "unsupported operation: more than one element of the written-to tensor refers to "
                    "a single memory location. Please clone() the tensor before performing the "
                    "operation."
                )
            warnings.warn(
                f"Use of {name.removeprefix('aten::')} on expanded tensors is deprecated. "
                "Please clone() the tensor before",
                stacklevel=2,
            )
        for other, storage in enumerate(storages if reads else ()):
            if storage != storages[target] or other == target:
                continue
            may_be_it = not moves or (other == 0 and name in _CHANGE)
            if (not may_be_it and _place(view) == _place(views[other])) or _partly(
                view, views[other]
            ):
                raise Overlap(
                    "unsupported operation: some elements of the input tensor and the written-to "
                    "tensor refer to a single memory location. Please clone() the tensor before "
                    "performing the operation."
                )


def check_resized(pure: OpOverload, *, itself: bool) -> None:
    """Raise Overlap if an operator must not resize the storage of one of its inputs.

    `pure` is the operator without out=. `itself` means that this input is the tensor to write to,
    not another view of its storage.
    """
    if pure._schema.name in _MOVE or (itself and torch.Tag.pointwise in pure.tags):
        raise Overlap(
            "unsupported operation: the input tensor cannot be resized for the result that is "
            "written to it: some elements of the input tensor and the written-to tensor refer to "
            "a single memory location. Please clone() the tensor before performing the operation."
        )


@cache
def _is_elementwise(name: str) -> bool:
    """Return whether any overload of an operator, or of its out-of-place variant, is pointwise."""
    namespace, _, plain = name.partition("::")
    for packet in {plain, plain.removesuffix("_")}:
        operator = getattr(getattr(torch.ops, namespace), packet, None)
        for overload in operator.overloads() if operator is not None else ():
            if torch.Tag.pointwise in getattr(operator, overload).tags:
                return True
    return False


def _partly(one: View, other: View) -> bool:
    if _place(one) == _place(other) or 0 in (*one.sizes, *other.sizes):
        return False
    if not (_is_dense(one) and _is_dense(other)):
        return False
    return one.offset < other.offset + _size(other) and other.offset < one.offset + _size(one)


def _place(view: View) -> View:
    # The conjugate and negative bits do not affect which memory a view covers.
    return replace(view, conj=False, neg=False)


def _is_dense(view: View) -> bool:
    return natural(view.sizes, view.strides).strides == view.strides


def _size(view: View) -> int:
    size = 1
    for length in view.sizes:
        size *= length
    return size
