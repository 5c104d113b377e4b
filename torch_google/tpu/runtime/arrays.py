# SPDX-License-Identifier: Apache-2.0
"""Arrays of JAX for torch's memory on the host, and back."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu import dtypes
from torch_google.tpu.program import host_array, tensor_of
from torch_google.tpu.runtime import platform


def zeros(shape: Sequence[int], dtype: torch.dtype, index: int) -> jax.Array:
    """Return an array of zeros on a device."""
    return jax.device_put(np.zeros(tuple(shape), dtypes.to_jax(dtype)), platform.device(index))


def resized(array: jax.Array, elements: int) -> jax.Array:
    """Return the first elements of an array, with zeros after its end."""
    flat = array.reshape(-1)[:elements]
    grown = jnp.pad(flat, (0, elements - flat.size))
    return jax.device_put(grown, next(iter(array.devices())))


def from_host(tensor: torch.Tensor, index: int) -> jax.Array:
    """Return the values of a tensor on the CPU, as they are now, on a device."""
    return jax.device_put(host_array(tensor), platform.device(index))


def to_host(array: jax.Array) -> torch.Tensor:
    """Return the values of an array as a flat tensor on the CPU, which nobody may write to."""
    if not array.size or array.dtype.itemsize == 1 or platform.name() != "cpu":
        return tensor_of(array).reshape(-1)
    array.block_until_ready()
    return torch.from_dlpack(array).reshape(-1)
