# SPDX-License-Identifier: Apache-2.0
"""What torch's fake tensors, and with them torch.compile, should know of results on this device.

For convolutions they ask which of torch's backends has the kernel, and lay out results as that one
does: contiguous, for a device that it does not know. Ours are laid out as on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import fake_impls
from torch.utils import _pytree as pytree

from torch_google.tpu.lowerings.layouts import convolution_format


def register() -> None:
    """Let fake convolutions of this device have the strides of real ones.

    A second call does nothing.
    """
    for op in (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default):
        theirs = fake_impls.op_implementations_dict[op]
        if theirs.__module__ != __name__:
            fake_impls.op_implementations_dict[op] = _laid_out(theirs)


def _laid_out(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def convolution(mode: Any, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
        made = theirs(mode, op, *args, **kwargs)
        first = 1 if op is torch.ops.aten.convolution_backward.default else 0
        names = [argument.name for argument in op._schema.arguments[first : first + 2]]
        given = dict(zip([a.name for a in op._schema.arguments], args, strict=False)) | kwargs
        x, weight = (given[name] for name in names)
        known = all(isinstance(size, int) for size in (*x.shape, *weight.shape))
        if x.device.type != "tpu" or not known:
            return made
        with mode:
            layout = convolution_format(x, weight)
            return pytree.tree_map_only(
                torch.Tensor,
                lambda t: t.contiguous(memory_format=layout) if t.ndim == x.ndim else t,
                made,
            )

    return convolution
