# SPDX-License-Identifier: Apache-2.0
"""Transfers between devices, and to and from the host."""

from __future__ import annotations

import jax
import torch

from torch_google.tpu import _C, dtypes, shardings
from torch_google.tpu.runtime import arrays, platform
from torch_google.tpu.runtime.strides import View, read

# Arrays up to this many bytes are copied to the host as a whole.
_SMALL = 1 << 20


def transfer(target: torch.Tensor, source: torch.Tensor, _non_blocking: bool = False) -> None:
    """Copy between tensors on different devices, with torch's rules for sizes and dtypes.

    The copy is synchronous even if `non_blocking` is set, so the caller may then change the source.
    """
    with torch._C.DisableTorchFunction(), torch._C._AutoDispatchBelowAutograd():
        source = source.expand(target.shape)
        if target.device.type == "cpu":
            target.copy_(to_host(source))
            return
        sharding = _C.sharding(target) if _is_whole(target) else shardings.ONE_DEVICE
        if source.device.type == "cpu":
            if _C.uses_cpu_kernels() and sharding == shardings.ONE_DEVICE and _is_whole(target):
                dtypes.check(target.dtype, platform.name())
                dtypes.to_jax(target.dtype)  # raises TypeError for a dtype that JAX lacks
                # CPU kernels read host memory, so do not create an array before a program needs it.
                values = torch.empty(target.shape, dtype=target.dtype, device="cpu")
                _C.store_host_value(target, values.copy_(source))
                return
            array = arrays.from_host(source.to(target.dtype), target.device.index, sharding)
        elif source.device.type == "tpu":
            value = read(_C.value(source), View.of(source))
            array = jax.device_put(value, platform.device(target.device.index))
            moved = from_array(array, source.dtype)
            target.copy_(moved)
            return
        else:
            raise NotImplementedError(
                f"tpu: no copy from {source.device} to {target.device}. Copy to the CPU first"
            )
        if _is_whole(target):
            _C.store(target, array, sharding)
        else:
            target.copy_(from_array(array, target.dtype))


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's values as a CPU tensor, which must not be written to."""
    # Reading values that a CPU kernel has left in host memory must not move them to an array.
    host = _C.host_value(tensor)
    if host is not None:
        return host_view(host.reshape(-1), tensor)
    value = _C.value(tensor)
    view = View.of(tensor)
    # Extract the view on the device, which compiles a program, only if this saves much time.
    if platform.name() != "cpu" and tensor.numel() * 2 < value.size and value.nbytes > _SMALL:
        return arrays.to_host(read(value, view)).reshape(view.sizes)
    return host_view(arrays.to_host(value), tensor)


def storage_to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's whole storage as a flat CPU tensor, which must not be written to."""
    return arrays.to_host(_C.value(tensor))


def host_view(storage: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the view of a storage's host copy that corresponds to the tpu tensor `like`."""
    if storage.dtype != like.dtype:
        # The storage may end with an incomplete element of the view's dtype.
        usable = storage.nbytes // like.itemsize * like.itemsize
        storage = storage[: usable // storage.itemsize].view(like.dtype)
    return _signed(storage.as_strided(like.shape, like.stride(), like.storage_offset()), like)


def from_array(array: jax.Array, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor whose storage is an array that is already on the device."""
    index = next(iter(array.devices())).id
    tensor = torch.empty(array.shape, dtype=dtype, device=f"tpu:{_index(index)}")
    _C.store(tensor, array)
    return tensor


def _signed(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Apply the lazy conj and neg bits of `like`."""
    if like.is_conj():
        values = torch._conj(values)
    return torch._neg_view(values) if like.is_neg() else values


def _index(identity: int) -> int:
    _C.start()
    for index in range(_C.device_count()):
        if platform.device(index).id == identity:
            return index
    raise ValueError(f"tpu: the array is on device {identity}, which is not a tpu device")


def _is_whole(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
        and tensor.storage_offset() == 0
        and tuple(tensor.shape) == _C.natural_shape(tensor)
        and tensor.dtype == _C.natural_dtype(tensor)
    )
