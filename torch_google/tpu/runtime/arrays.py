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
from torch_google.tpu.runtime import errors, platform


def zeros(shape: Sequence[int], dtype: torch.dtype, index: int) -> jax.Array:
    """Return an array of zeros on a device. Raises torch.OutOfMemoryError."""
    try:
        return jax.device_put(np.zeros(tuple(shape), dtypes.to_jax(dtype)), platform.device(index))
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            wanted = math.prod(shape) * dtype.itemsize
            raise errors.out_of_memory("a new tensor", f"it takes {wanted} bytes") from error
        raise


def resized(array: jax.Array, elements: int) -> jax.Array:
    """Return the first elements of an array, with zeros after its end."""
    flat = array.reshape(-1)[:elements]
    grown = jnp.pad(flat, (0, elements - flat.size))
    return jax.device_put(grown, next(iter(array.devices())))


def from_host(tensor: torch.Tensor, index: int) -> jax.Array:
    """Return the values of a tensor on the CPU, as they are now, on a device."""
    wanted = dtypes.to_jax(tensor.dtype)
    own = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu").copy_(tensor)
    flat = own.reshape(-1).view(torch.uint8).numpy() if own.numel() else np.empty(0, np.uint8)
    return jax.device_put(flat.view(wanted).reshape(own.shape), platform.device(index))


def to_host(array: jax.Array) -> torch.Tensor:
    """Return the values of an array as a flat tensor on the CPU, which nobody may write to."""
    dtype = dtypes.to_torch(array.dtype)
    if not array.size:
        return torch.empty(0, dtype=dtype, device="cpu")
    errors.wait(array)
    if array.dtype.itemsize == 1 or platform.name() != "cpu":
        return torch.from_numpy(np.array(array).reshape(-1).view(np.uint8)).view(dtype)
    return torch.from_dlpack(array).reshape(-1)
