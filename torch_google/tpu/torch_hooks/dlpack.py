# SPDX-License-Identifier: Apache-2.0
"""Exports tpu tensors with DLPack, through their JAX arrays.

torch has no hook for exporting tensors on third-party devices. Its `__dlpack_device__` would reject
them, and its `__dlpack__` would export the storage's fake address. So this module wraps the methods
of Tensor. Tensors on other devices still use torch's own methods. JAX is not loaded before the
first tpu tensor is exported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def install() -> None:
    """Enable DLPack export of tpu tensors."""
    _wrap(torch.Tensor, "__dlpack__", _dlpack)
    _wrap(torch.Tensor, "__dlpack_device__", _dlpack_device)
    for module in (torch, torch.utils.dlpack):
        _wrap(module, "to_dlpack", _dlpack)


def _dlpack(
    tensor: torch.Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[Any, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Return a read-only capsule with a tensor's values.

    The capsule shares the buffer that to_jax returns. DLPack 1.0 capsules are marked as read-only.
    NumPy respects the flag, but torch ignores it.
    """
    from torch_google.tpu.interop.jax_arrays import to_jax

    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    array = to_jax(tensor)
    # Consumers on the host read the memory immediately, without synchronizing a stream.
    array.block_until_ready()
    return _of(array, "__dlpack__")(
        stream=None if stream == -1 else stream,
        max_version=max_version,
        dl_device=dl_device,
        copy=copy,
    )


def _dlpack_device(tensor: torch.Tensor) -> tuple[DLDeviceType, int]:
    """Return the DLPack device of a tensor's memory, which is the CPU on the `cpu` platform."""
    from torch_google.tpu.runtime import platform

    if platform.name() == "cpu":
        return DLDeviceType.kDLCPU, 0
    from torch_google.tpu.interop.jax_arrays import to_jax

    kind, index = _of(to_jax(tensor.detach()), "__dlpack_device__")()
    return DLDeviceType(int(kind)), index


def _of(array: Any, method: str) -> Any:
    from torch_google.tpu.runtime import platform

    if platform.name() == "tpu":
        raise BufferError(
            "tpu: DLPack cannot describe the memory of a TPU. Export tensor.cpu(), or share the "
            "array with torch_google.tpu.to_jax"
        )
    return getattr(array, method)


def _wrap(owner: Any, name: str, replacement: Any) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            isinstance(tensor, torch.Tensor)
            and tensor.device.type == "tpu"
            and not has_torch_function_unary(tensor)
        ):
            return replacement(tensor, *args, **kwargs)
        return original(tensor, *args, **kwargs)

    setattr(owner, name, call)
