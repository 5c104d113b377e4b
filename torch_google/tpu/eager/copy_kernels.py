# SPDX-License-Identifier: Apache-2.0
"""Kernels that need no compiled program: copies, and reads by the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime.dynamo_skip import untraced
from torch_google.tpu.runtime.transfer import to_host, transfer

_library = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Register the kernels. Idempotent."""
    kernels: dict[str, Callable[..., Any]] = {
        "_copy_from": _copy_from,
        "_copy_from_and_resize": _copy_from_and_resize,
        "_local_scalar_dense": _local_scalar_dense,
        "equal": _equal,
        "_has_compatible_shallow_copy_type": _can_become,
    }
    for name, kernel in kernels.items():
        _register(name, kernel, "PrivateUse1")
    if V2_6:
        # torch v2.6 dispatches this operator to the autograd key, where no kernel is registered.
        _register("_has_compatible_shallow_copy_type", _can_become, "AutogradPrivateUse1")


def _register(name: str, kernel: Callable[..., Any], key: str) -> None:
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
        _library.impl(name, untraced(kernel), key)


def _copy_from(
    source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False
) -> torch.Tensor:
    if source.device == target.device:
        target.copy_(source)
    else:
        transfer(target, source, non_blocking)
    return target


def _copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    target.resize_(source.shape)
    return _copy_from(source, target)


def _local_scalar_dense(tensor: torch.Tensor) -> Any:
    with torch._C.DisableTorchFunction():
        return to_host(tensor).reshape(()).item()


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return one.shape == other.shape and bool(torch.eq(one, other).all().item())


def _can_become(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether `tensor.data = other` may move the tensor to another device.

    If it may, Module.to() keeps the parameter objects. Otherwise it would replace each of them, and
    modules would no longer share parameters.
    """
    return all(
        one.device.type in ("cpu", "tpu") and one.layout == torch.strided for one in (tensor, other)
    )
