# SPDX-License-Identifier: Apache-2.0
"""Fake quantization with an observer, whose per-channel state is allocated by the first call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._subclasses.functional_tensor import FunctionalTensor

_UNALLOCATED = (
    "fused_moving_avg_obs_fake_quant: the state per channel is empty, and a compiled graph cannot "
    "allocate it. Call the function or module once before torch.compile"
)
_OP = torch.ops.aten.fused_moving_avg_obs_fake_quant.default


def _observed(
    x: torch.Tensor,
    observer_on: torch.Tensor,
    fake_quant_on: torch.Tensor,
    running_min: torch.Tensor,
    running_max: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> torch.Tensor:
    if per_row_fake_quant and running_min.numel() == 0:
        if isinstance(running_min, FunctionalTensor):
            raise RuntimeError(_UNALLOCATED)
        state = (running_min, torch.inf), (running_max, -torch.inf), (scale, 1.0), (zero_point, 0)
        for tensor, initial in state:
            tensor.resize_(x.shape[ch_axis]).fill_(initial)
    result: torch.Tensor = _OP._op_dk(
        DispatchKey.CompositeImplicitAutograd,
        *(x, observer_on, fake_quant_on, running_min, running_max, scale, zero_point),
        *(averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant),
    )
    return result


KERNELS: dict[str, Callable[..., Any]] = {"fused_moving_avg_obs_fake_quant": _observed}
"""The implementation of each operator, by name and overload."""
