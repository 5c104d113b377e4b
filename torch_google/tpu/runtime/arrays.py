# SPDX-License-Identifier: Apache-2.0
"""Arrays of JAX for torch's memory on the host, and back."""

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

    Raises torch.OutOfMemoryError, and RuntimeError for a dtype that the platform has not.
    """
    dtypes.check(dtype, platform.name())
    try:
        return jax.device_put(np.zeros(tuple(shape), dtypes.to_jax(dtype)), platform.device(index))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            wanted = math.prod(shape) * dtype.itemsize
            raise errors.out_of_memory("a new tensor", f"it takes {wanted} bytes") from error
        raise


def resized(array: jax.Array, elements: int, dtype: torch.dtype) -> jax.Array:
    """Return the first bytes of an array, as so many elements, with zeros after its end."""
    if dtypes.to_jax(dtype) != array.dtype:
        held = array.nbytes // dtype.itemsize
        array = read(array, View((held,), (1,), 0, dtype))
    flat = array.reshape(-1)[:elements]
    grown = jnp.pad(flat, (0, elements - flat.size))
    return jax.device_put(grown, next(iter(array.devices())))


def of_bytes(array: jax.Array, shape: Sequence[int], dtype: torch.dtype) -> jax.Array | None:
    """Return an array of bytes as elements, by way of the host: nothing is compiled for it.

    None where bools have other bytes than 0 and 1, and for a dtype that the platform has not.
    """
    try:
        dtypes.check(dtype, platform.name())
    except RuntimeError:
        return None
    held = to_host(array)
    if dtype == torch.bool and held.gt(1).any():
        return None
    elements = host_array(held.view(dtype).reshape(tuple(shape)))
    return jax.device_put(elements, next(iter(array.devices())))


def from_host(tensor: torch.Tensor, index: int) -> jax.Array:
    """Return the values of a tensor on the CPU, as they are now, on a device.

    Raises RuntimeError for a dtype that the platform has not.
    """
    dtypes.check(tensor.dtype, platform.name())
    return jax.device_put(host_array(tensor), platform.device(index))


def to_host(array: jax.Array) -> torch.Tensor:
    """Return the values of an array as a flat tensor on the CPU, which nobody may write to."""
    errors.wait(array)
    if not array.size or array.dtype.itemsize == 1 or platform.name() != "cpu":
        return tensor_of(array).reshape(-1)
    return torch.from_dlpack(array).reshape(-1)
