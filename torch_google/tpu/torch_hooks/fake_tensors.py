# SPDX-License-Identifier: Apache-2.0
"""Gives fake convolutions on this device the strides of real ones, for torch.compile.

torch chooses the layout of a fake result according to the backend that would compute it. For a
device that torch does not recognize, the result is contiguous, but this device uses the CPU's
layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses import fake_impls
from torch.utils import _pytree as pytree

from torch_google.tpu.lowerings.layouts import in_convolution_format


def register() -> None:
    """Wrap torch's fake implementations of convolutions. Idempotent."""
    for op in (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default):
        implementation = fake_impls.op_implementations_dict[op]
        if implementation.__module__ != __name__:
            fake_impls.op_implementations_dict[op] = _laid_out(implementation)


def _laid_out(implementation: Callable[..., Any]) -> Callable[..., Any]:
    def convolution(mode: Any, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
        results = implementation(mode, op, *args, **kwargs)
        first = 1 if op is torch.ops.aten.convolution_backward.default else 0
        names = [argument.name for argument in op._schema.arguments[first : first + 2]]
        by_name = dict(zip([a.name for a in op._schema.arguments], args, strict=False)) | kwargs
        x, weight = (by_name[name] for name in names)
        static = all(isinstance(size, int) for size in (*x.shape, *weight.shape))
        if x.device.type != "tpu" or not static:
            return results
        with mode:
            return pytree.tree_map_only(
                torch.Tensor,
                lambda t: in_convolution_format(t, x, weight, by_name["groups"]),
                results,
            )

    return convolution
