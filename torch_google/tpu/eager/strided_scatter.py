# SPDX-License-Identifier: Apache-2.0
"""`slice_scatter` and its like for a strided view: the result keeps strides and offset.

torch's kernels clone the whole storage of such a view and write to the same view of the clone. A
program allocates its results densely and without an offset, so the same steps run here one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from torch_google.tpu.eager.normalized_call import NormalizedCall
from torch_google.tpu.runtime.strides import View, natural

aten = torch.ops.aten

# For each operator, the view of its result that it writes `src` to.
_VIEWS: dict[OpOverload, Callable[..., torch.Tensor]] = {
    aten.as_strided_scatter.default: torch.as_strided,
    aten.diagonal_scatter.default: torch.diagonal,
    aten.select_scatter.default: torch.select,
    aten.slice_scatter.default: aten.slice.Tensor,
}


def run(op: OpOverload, call: NormalizedCall) -> list[Any] | None:
    """Return the results of a scatter whose layout no program can produce; None for other calls."""
    if op not in _VIEWS or not _keeps_layout(call.views[0]):
        return None
    x, src, *where = call.args
    elements = x.untyped_storage().nbytes() // x.element_size()
    whole = x.as_strided((elements,), (1,), 0).clone()
    result = whole.as_strided(x.shape, x.stride(), x.storage_offset())
    target = _VIEWS[op](result, *where)
    if target.shape != src.shape:
        return None  # torch's meta kernel refuses it
    target.copy_(src)
    return [result]


def _keeps_layout(view: View) -> bool:
    """Return whether torch clones the storage, and a dense result would differ from the clone.

    torch clones only the values of a view that repeats elements, and of a lazy conjugate.
    """
    if view.conj or view.neg or 0 in view.sizes:
        return False
    steps = zip(view.sizes, view.strides, strict=True)
    if any(stride == 0 and size > 1 for size, stride in steps):
        return False
    dense = natural(view.sizes, view.strides)
    return view.offset > 0 or dense.strides != view.strides or _has_gaps(view)


def _has_gaps(view: View) -> bool:
    steps = zip(view.sizes, view.strides, strict=True)
    extent = 1 + sum((size - 1) * stride for size, stride in steps)
    return extent != math.prod(view.sizes)
