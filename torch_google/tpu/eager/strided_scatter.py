# SPDX-License-Identifier: Apache-2.0
"""Scatter operators and `as_strided_copy`, which need a strided view's whole storage.

torch's scatter kernels clone the whole storage of a strided view and write to the same view of the
clone, so the result keeps the strides and the offset. A compiled program cannot do that: it reads
only the elements of its arguments, and its results are dense and start at offset 0. So this module
performs torch's steps one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from torch_google.tpu.eager.normalized_call import NormalizedCall
from torch_google.tpu.runtime.strides import View, is_plain, natural

aten = torch.ops.aten

# For each scatter operator, the function that returns the part of the result to overwrite with
# `src`.
_VIEWS: dict[OpOverload, Callable[..., torch.Tensor]] = {
    aten.as_strided_scatter.default: torch.as_strided,
    aten.diagonal_scatter.default: torch.diagonal,
    aten.select_scatter.default: torch.select,
    aten.slice_scatter.default: aten.slice.Tensor,
}


def run(op: OpOverload, call: NormalizedCall) -> list[Any] | None:
    """Run a call that needs a view's whole storage. Return its results, or None for other calls."""
    if op is aten.as_strided_copy.default:
        return [aten.as_strided.default(*call.args).clone(memory_format=torch.contiguous_format)]
    if op not in _VIEWS:
        return None
    x, src, *where = call.args
    elements = x.untyped_storage().nbytes() // x.element_size()
    if not _needs_storage(op, call.views[0], elements):
        return None
    flat = x.as_strided((elements,), (1,), 0).clone()
    result = flat.as_strided(x.shape, x.stride(), x.storage_offset())
    target = _VIEWS[op](result, *where)
    if target.shape != src.shape:
        return None  # torch's meta kernel rejects the call
    target.copy_(src)
    return [result]


def _needs_storage(op: OpOverload, view: View, elements: int) -> bool:
    """Return whether torch clones the view's whole storage, which a program cannot do.

    If a view repeats elements or is lazily conjugated, torch clones only the view's values.
    """
    if view.conj or view.neg or 0 in view.sizes:
        return False
    steps = zip(view.sizes, view.strides, strict=True)
    if any(stride == 0 and size > 1 for size, stride in steps):
        return False
    if op is aten.as_strided_scatter.default:
        return not is_plain(view.sizes, view) or math.prod(view.sizes) != elements
    dense = natural(view.sizes, view.strides)
    return view.offset > 0 or dense.strides != view.strides or _has_gaps(view)


def _has_gaps(view: View) -> bool:
    steps = zip(view.sizes, view.strides, strict=True)
    extent = 1 + sum((size - 1) * stride for size, stride in steps)
    return extent != math.prod(view.sizes)
