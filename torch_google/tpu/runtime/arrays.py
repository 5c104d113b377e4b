# SPDX-License-Identifier: Apache-2.0
"""Conversion between JAX arrays and torch's host memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu import dtypes
from torch_google.tpu.program import host_array, tensor_of
from torch_google.tpu.runtime import errors, platform
from torch_google.tpu.runtime.strides import View, read


def zeros(shape: Sequence[int], dtype: torch.dtype, index: int) -> jax.Array:
    """Return an array of zeros on a device.

    Raises torch.OutOfMemoryError, and RuntimeError for a dtype that the platform lacks.
    """
    dtypes.check(dtype, platform.name())
    try:
        return jax.device_put(np.zeros(tuple(shape), dtypes.to_jax(dtype)), platform.device(index))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            size = math.prod(shape) * dtype.itemsize
            raise errors.out_of_memory("a new tensor", f"it takes {size} bytes") from error
        raise


def resized(array: jax.Array, elements: int, dtype: torch.dtype) -> jax.Array:
    """Return an array resized to `elements` of `dtype`. Bytes beyond the old end are 0."""
    if dtypes.to_jax(dtype) != array.dtype:
        count = array.nbytes // dtype.itemsize
        array = read(array, View((count,), (1,), 0, dtype))
    flat = array.reshape(-1)[:elements]
    grown = jnp.pad(flat, (0, elements - flat.size))
    return jax.device_put(grown, next(iter(array.devices())))


def of_bytes(array: jax.Array, shape: Sequence[int], dtype: torch.dtype) -> jax.Array | None:
    """Return a byte array as elements of `dtype`, via the host, so that nothing is compiled.

    Returns None for bool bytes other than 0 and 1, and for a dtype that the platform lacks.
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


def from_host(tensor: torch.Tensor, index: int) -> jax.Array:
    """Return a copy of a CPU tensor's values on a device.

    Raises RuntimeError for a dtype that the platform lacks.
    """
    dtypes.check(tensor.dtype, platform.name())
    return jax.device_put(host_array(tensor), platform.device(index))


def to_host(array: jax.Array) -> torch.Tensor:
    """Return an array's values as a flat CPU tensor, which must not be written to."""
    errors.wait(array)
    if not array.size or array.dtype.itemsize == 1 or platform.name() != "cpu":
        return tensor_of(array).reshape(-1)
    return torch.from_dlpack(array).reshape(-1)


def received(
    values: torch.Tensor, shape: Sequence[int], dtype: torch.dtype, index: int
) -> jax.Array:
    """Return a flat CPU tensor as an array of a shape and dtype on a device.

    The array takes the tensor's memory if the platform is the CPU, so nothing else may refer to it.
    """
    values = values.view(dtype).reshape(tuple(shape))
    if platform.name() != "cpu" or not values.numel() or dtype.itemsize == 1:
        return from_host(values, index)
    device = platform.device(index)
    array = jax.dlpack.from_dlpack(values)
    return array if device in array.devices() else jax.device_put(array, device)
