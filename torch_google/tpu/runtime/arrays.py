# SPDX-License-Identifier: Apache-2.0
"""Conversion between JAX arrays and torch's host memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax._src.lib import _jax
from jax.sharding import SingleDeviceSharding
from torch.utils.dlpack import to_dlpack

from torch_google.tpu import dtypes, shardings
from torch_google.tpu.program import host_array, tensor_of
from torch_google.tpu.runtime import errors, platform
from torch_google.tpu.runtime.strides import View, read

# Zero-filled arrays of at least this many bytes are created on the device. Compiling the program
# that creates them takes about 0.2 s.
_LARGE = 1 << 26
# DLPack's device type for host memory, kDLCPU.
_ON_THE_HOST = 1
# Arrays up to this size are resized on the host.
_SMALL = 1 << 20


def zeros(
    shape: Sequence[int], dtype: torch.dtype, index: int, sharding: int = shardings.ONE_DEVICE
) -> jax.Array:
    """Return zeros on the device `index`, or distributed according to the sharding `sharding`.

    Large arrays are created on the device. Smaller arrays are copied to it, which takes less time
    than compiling a program for their shape. On the `cpu` platform, all arrays are copied from
    NumPy.

    Raises torch.OutOfMemoryError if there is not enough memory, and RuntimeError for a dtype that
    the platform does not support.
    """
    dtypes.check(dtype, platform.name())
    try:
        if platform.name() != "cpu" and math.prod(shape) * dtype.itemsize >= _LARGE:
            on = (
                SingleDeviceSharding(platform.device(index))
                if sharding == shardings.ONE_DEVICE
                else shardings.sharding_of(sharding)
            )
            return _zeros_program(tuple(shape), dtype, on)()
        if sharding != shardings.ONE_DEVICE:
            return _sharded_zeros(tuple(shape), dtype, shardings.sharding_of(sharding))
        return jax.device_put(np.zeros(tuple(shape), dtypes.to_jax(dtype)), platform.device(index))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            size = math.prod(shape) * dtype.itemsize
            raise errors.out_of_memory("a new tensor", f"it takes {size} bytes") from error
        raise


def resized(array: jax.Array, elements: int, dtype: torch.dtype) -> jax.Array:
    """Return a flat copy with `elements` elements of `dtype`, truncated or extended with zeros."""
    if dtypes.to_jax(dtype) == array.dtype and (
        platform.name() == "cpu" or max(array.nbytes, elements * dtype.itemsize) <= _SMALL
    ):
        # Copy through the host: a program would have to be compiled for each length.
        values = np.asarray(array).reshape(-1)[:elements]
        copied = np.zeros(elements, values.dtype)
        copied[: values.size] = values
        return jax.device_put(copied, next(iter(array.devices())))
    if dtypes.to_jax(dtype) != array.dtype:
        count = array.nbytes // dtype.itemsize
        array = read(array, View((count,), (1,), 0, dtype))
    flat = array.reshape(-1)[:elements]
    grown = jnp.pad(flat, (0, elements - flat.size))
    return jax.device_put(grown, next(iter(array.devices())))


def of_bytes(array: jax.Array, shape: Sequence[int], dtype: torch.dtype) -> jax.Array | None:
    """Reinterpret a byte array as elements of `dtype`, on the host, without compiling a program.

    Returns None if `dtype` is bool and a byte is neither 0 nor 1, or if the platform does not
    support the dtype.
    """
    try:
        dtypes.check(dtype, platform.name())
    except RuntimeError:
        return None
    data = to_host(array)
    if dtype == torch.bool and data.gt(1).any():
        return None
    elements = host_array(data.view(dtype).reshape(tuple(shape)))
    return jax.device_put(elements, next(iter(array.devices())))


def from_host(tensor: torch.Tensor, index: int, sharding: int = shardings.ONE_DEVICE) -> jax.Array:
    """Copy a CPU tensor's values to the device `index`, or distribute them according to `sharding`.

    Each device receives only its own shard. Raises RuntimeError for a dtype that the platform does
    not support.
    """
    dtypes.check(tensor.dtype, platform.name())
    if sharding != shardings.ONE_DEVICE:
        return jax.device_put(host_array(tensor), shardings.sharding_of(sharding))
    return jax.device_put(host_array(tensor), platform.device(index))


def replicated(array: jax.Array, sharding: int) -> jax.Array:
    """Copy an array to all devices of a replicated sharding, given by its index."""
    return jax.device_put(array, shardings.sharding_of(sharding))


def localized(
    values: tuple[jax.Array, ...], positions: Sequence[int], index: int
) -> tuple[jax.Array, ...]:
    """Return the arrays, with those at `positions` moved to the device `index`."""
    local = list(values)
    for position in positions:
        local[position] = on_one_device(values[position], index)
    return tuple(local)


def on_one_device(array: jax.Array, index: int) -> jax.Array:
    """Move an array to a device. If it is replicated there, return the existing copy instead."""
    device = platform.device(index)
    if array.is_fully_replicated:
        copies = {shard.device: shard.data for shard in array.addressable_shards}
        return copies[device] if device in copies else jax.device_put(array, device)
    return jax.device_put(array, device)


def to_host(array: jax.Array) -> torch.Tensor:
    """Return an array's values as a flat CPU tensor, which must not be written to.

    The shards of an array are gathered on the host, so no device has to store the whole array.
    """
    errors.wait(array)
    if len(array.sharding.device_set) > 1:
        if not array.is_fully_replicated:
            return tensor_of(array).reshape(-1)
        array = array.addressable_data(0)
    if not array.size or array.dtype.itemsize == 1 or platform.name() != "cpu":
        return tensor_of(array).reshape(-1)
    return torch.from_dlpack(array).reshape(-1)


def received(
    values: torch.Tensor, shape: Sequence[int], dtype: torch.dtype, index: int
) -> jax.Array:
    """Copy a flat CPU tensor to a device, as an array with this shape and dtype.

    On the `cpu` platform, the array may use the tensor's memory, so the caller must not use the
    tensor again.
    """
    values = values.view(dtype).reshape(tuple(shape))
    if platform.name() != "cpu" or not values.numel() or dtype.itemsize == 1:
        return from_host(values, index)
    # jax.dlpack.from_dlpack takes nine times as long: it also supports copies and other devices.
    return _jax.dlpack_managed_tensor_to_buffer(
        to_dlpack(values), platform.device(index), None, None, _ON_THE_HOST
    )


@lru_cache(256)
def _zeros_program(
    shape: tuple[int, ...], dtype: torch.dtype, sharding: jax.sharding.Sharding
) -> Callable[[], jax.Array]:
    def zeros() -> jax.Array:
        return jnp.zeros(shape, dtypes.to_jax(dtype))

    return jax.jit(zeros, out_shardings=sharding)


def _sharded_zeros(
    shape: tuple[int, ...], dtype: torch.dtype, sharding: jax.sharding.Sharding
) -> jax.Array:
    part = np.zeros(sharding.shard_shape(shape), dtypes.to_jax(dtype))
    return jax.make_array_from_callback(shape, sharding, lambda _: part)
