# SPDX-License-Identifier: Apache-2.0
"""Makes torch's `flex_attention` accept tensors on this device, including under autocast.

torch has a fixed list of devices for it, and autocast kernels only for the CPU and CUDA.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard

_AUTOCAST = DispatchKey.AutocastPrivateUse1


def extend(module: ModuleType) -> None:
    """Extend the module `torch.nn.attention.flex_attention`."""
    original = module._validate_device

    def _validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "tpu":
            original(query, key, value)

    module._validate_device = _validate_device  # type: ignore[attr-defined]
    operators = import_module("torch._higher_order_ops.flex_attention")
    operator = operators.flex_attention

    def autocast(query: Any, key: Any, value: Any, *rest: Any, **options: Any) -> Any:
        arguments = (_cast(x) for x in (query, key, value))
        with _ExcludeDispatchKeyGuard(DispatchKeySet(_AUTOCAST)):
            return operator(*arguments, *rest, **options)

    operator.py_impl(_AUTOCAST)(autocast)
    # torch.compile also traces the gradient under autocast. Its operands have their final dtypes,
    # so cast nothing.
    operators.flex_attention_backward.fallthrough(_AUTOCAST)


def _cast(x: torch.Tensor) -> torch.Tensor:
    eligible = x.is_floating_point() and x.dtype != torch.float64
    return x.to(torch.get_autocast_dtype("tpu")) if eligible else x
