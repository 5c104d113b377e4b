# SPDX-License-Identifier: Apache-2.0
"""DLPack for tensors of tpu: what their arrays have for it.

torch has no hook for this: it would refuse `__dlpack_device__`, and hand out the address of a
storage, which on this device is no memory. So the methods of Tensor are wrapped; they are torch's own
for every other device. Nothing here loads JAX before a tensor of tpu is exported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def install() -> None:
    """Let tensors of tpu be exported by DLPack."""
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
    """Return a capsule over the values of a tensor, which nobody may write to.

    It is the tensor's own buffer where to_jax gives that. Capsules of DLPack 1.0 say that they are
    read-only, which NumPy keeps to; torch does not look.
    """
    from torch_google.tpu.interop.jax_arrays import to_jax

    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    array = to_jax(tensor)
    # Consumers on the host look at the memory at once; no stream tells them when it is written.
    array.block_until_ready()
    return _of(array, "__dlpack__")(
        stream=None if stream == -1 else stream,
        max_version=max_version,
        dl_device=dl_device,
        copy=copy,
    )


def _dlpack_device(tensor: torch.Tensor) -> tuple[DLDeviceType, int]:
    """Return where the memory lies: on the CPU, where that is the platform."""
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
            "tpu: the memory of a TPU has no place in DLPack. Export tensor.cpu(), or share the "
            "array by torch_google.tpu.to_jax"
        )
    return getattr(array, method)


def _wrap(owner: Any, name: str, ours: Any) -> None:
    theirs = getattr(owner, name)

    @wraps(theirs)
    def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            isinstance(tensor, torch.Tensor)
            and tensor.device.type == "tpu"
            and not has_torch_function_unary(tensor)
        ):
            return ours(tensor, *args, **kwargs)
        return theirs(tensor, *args, **kwargs)

    setattr(owner, name, call)
