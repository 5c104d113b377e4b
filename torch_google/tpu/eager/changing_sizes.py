# SPDX-License-Identifier: Apache-2.0
"""Warns, once per process, about operators that keep compiling programs for new sizes."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from torch_google.tpu import _C
from torch_google.tpu.eager.normalized_call import NormalizedCall
from torch_google.tpu.runtime import errors, platform

_log = logging.getLogger(__name__)

# The warning appears when an operator has been compiled for this many sizes with the same dtypes
# and ranks. Even large models stay below this number if their tensor sizes are constant.
MOST_SIZES = 64

_Shapes = tuple[tuple[int, ...], ...]


class ChangingSizes:
    """The sizes for which each operator was compiled. Empty once the warning has appeared."""

    def __init__(self) -> None:
        # A dict instead of a set, to preserve the order of the sizes. Its values are unused.
        self._shapes: defaultdict[object, dict[_Shapes, None]] = defaultdict(dict)
        self._has_warned = False

    def note(self, call: NormalizedCall) -> None:
        """Count a call that is about to be compiled."""
        if self._has_warned or not call.tensors:
            return
        kind = (call.op, tuple((tensor.dtype, tensor.dim()) for tensor in call.tensors))
        shapes = self._shapes[kind]
        shapes[tuple(tuple(tensor.shape) for tensor in call.tensors)] = None
        if len(shapes) < MOST_SIZES:
            return
        self._has_warned = True
        text = message(call.op.name(), list(shapes), _remedy())
        self._shapes.clear()
        _log.warning("%s", text)


def message(name: str, shapes: Sequence[_Shapes], remedy: str) -> str:
    """Return the text of the warning. It reports the dimension that had the most distinct sizes."""
    sizes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for shape in shapes:
        for tensor, dimensions in enumerate(shape):
            for dimension, size in enumerate(dimensions):
                sizes[tensor, dimension].append(size)
    (tensor, dimension), values = max(sizes.items(), key=lambda item: len(set(item[1])))
    latest = ", ".join(map(str, values[-3:]))
    return (
        f"tpu: {errors.caller()}: {name} has {len(shapes)} programs, because size {dimension} "
        f"of tensor argument {tensor} changes (now {latest}). Each new size compiles a program, "
        f"which takes about 50 ms. {remedy}"
    )


def _remedy() -> str:
    if platform.name() == "cpu" and not _C.uses_cpu_kernels():
        return (
            "torch.tpu.set_cpu_kernels(True) or torch.tpu.set_size_buckets(True) avoids that on the "
            "platform cpu"
        )
    return (
        "Allocate the tensor at its full length and mask it, or use torch.compile(dynamic=True), "
        "which pads sizes to buckets"
    )


SIZES = ChangingSizes()
"""The sizes seen in this process."""
