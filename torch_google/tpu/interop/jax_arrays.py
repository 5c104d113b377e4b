# SPDX-License-Identifier: Apache-2.0
"""Converts between a tpu tensor and a JAX array that share a buffer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch

from torch_google.tpu import _C, dtypes
from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.strides import View, is_plain, read
from torch_google.tpu.runtime.transfer import from_array


def to_jax(tensor: torch.Tensor) -> jax.Array:
    """Return a tpu tensor's current values as an array on the same device.

    If the tensor covers its whole storage in the original shape, the array shares the storage's
    buffer and nothing is copied. For any other view (a slice, a transpose, another shape or dtype),
    the array is a copy.

    A later write to the tensor gives it a new array and leaves the returned one unchanged. Do not
    donate the returned array to a JAX function while the tensor is in use.

    Raises TypeError if the argument is not a tensor or has a dtype that JAX lacks, ValueError if
    the tensor is not a strided tpu tensor, and RuntimeError if a gradient would be lost.
    """
    _check_tensor(tensor)
    value = _C.value(tensor)
    view = View.of(tensor)
    is_whole = value.dtype == dtypes.to_jax(view.dtype) and is_plain(value.shape, view)
    if not is_whole or view.conj or view.neg:
        return _read(value, view)
    # Mark the buffer as shared, because reference counts do not show all of its uses once the
    # caller has the array.
    _C.share(tensor)
    return value


def from_jax(array: jax.Array) -> torch.Tensor:
    """Return a tensor that shares an array's buffer, on the tpu device that holds the array.

    Nothing is copied unless the array has an unusual memory layout. A later write to the tensor
    gives the tensor a new buffer and leaves the array unchanged.

    Raises TypeError if the argument is not a JAX array or has a dtype that torch lacks. Raises
    ValueError if the array is on several devices, or not on a tpu device. Raises RuntimeError if
    the array has no buffer, because it was donated or deleted or is a tracer.
    """
    dtype = _check_array(array)
    if array.weak_type:
        # torch has no weak types, so wrap the buffer in an array without JAX's weak-type flag.
        array = jax.make_array_from_single_device_arrays(array.shape, array.sharding, [array])
    if not _has_usual_layout(array):
        array = _laid_out(array)
    tensor = from_array(array, dtype)
    _C.share(tensor)
    return tensor


def _check_tensor(tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"to_jax: expected a tensor, found {type(tensor).__name__}")
    if tensor.device.type != "tpu":
        raise ValueError(
            f"to_jax: expected a tensor of tpu, found one of {tensor.device}. Move it with "
            ".to('tpu')" + (", or use jax.numpy.asarray" if tensor.device.type == "cpu" else "")
        )
    if tensor.layout != torch.strided:
        raise ValueError(f"to_jax: no array for the layout {tensor.layout}. Use .to_dense()")
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise RuntimeError(
            "to_jax: a tensor within torch.func has no array. Make the JAX function an operator, "
            "with torch_google.tpu.custom_kernel"
        )
    if tensor.requires_grad:
        raise RuntimeError(
            "to_jax: the tensor requires grad, which JAX would not follow. Use tensor.detach(), or "
            "make the JAX function an operator, with torch_google.tpu.custom_kernel"
        )
    dtypes.to_jax(tensor.dtype)


def _check_array(array: Any) -> torch.dtype:
    if isinstance(array, jax.core.Tracer):
        raise RuntimeError(
            f"from_jax: a tracer has no values yet: {array.aval}. Call from_jax outside of jit, or "
            "make the function an operator, with torch_google.tpu.custom_kernel"
        )
    if not isinstance(array, jax.Array):
        raise TypeError(
            f"from_jax: expected a jax.Array, found {type(array).__name__}. Make one with "
            "jax.numpy.asarray, or a tensor with torch.as_tensor(..., device='tpu')"
        )
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(
            f"from_jax: torch has no dtype for {array.dtype}. For a key, use jax.random.key_data"
        )
    dtype = dtypes.to_torch(array.dtype)
    if array.is_deleted():
        raise RuntimeError(
            f"from_jax: the array {array.aval.str_short()} was donated or deleted. Pass the result "
            "of the function that took it"
        )
    _check_place(array)
    return dtype


def _check_place(array: jax.Array) -> None:
    _C.start()
    tpu_devices = [platform.device(index) for index in range(_C.device_count())]
    devices = sorted(array.sharding.device_set, key=lambda device: device.id)
    if len(devices) != 1:
        raise ValueError(
            f"from_jax: the array is on {len(devices)} devices ({array.sharding}), a tensor on one."
            " Take one of array.addressable_shards, or gather it with jax.device_put(array, device)"
        )
    if devices[0] not in tpu_devices:
        raise ValueError(
            f"from_jax: the array is on {devices[0]}, which is not a tpu device: "
            f"{', '.join(map(str, tpu_devices))}. Move it with jax.device_put(array, device)"
        )
    kind = array.sharding.memory_kind
    usual = devices[0].default_memory().kind
    if kind not in (None, usual):
        raise ValueError(
            f"from_jax: the array is in memory of kind {kind}, tensors are in {usual}. Move it with "
            f"jax.device_put(array, array.sharding.with_memory_kind('{usual}'))"
        )


def _has_usual_layout(array: jax.Array) -> bool:
    # Programs are compiled for the platform's default layout, which is not always row-major on a
    # TPU. JAX arrays have the default layout unless the user chose another one.
    if platform.name() == "tpu":
        return True
    layout = array.format.layout
    return layout is None or layout.major_to_minor == tuple(range(array.ndim))


@jax.jit
def _laid_out(array: jax.Array) -> jax.Array:
    return array


_read = jax.jit(read, static_argnums=1)
