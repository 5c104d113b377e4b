# SPDX-License-Identifier: Apache-2.0
"""Converts between host tensors and NumPy or JAX arrays without changing any bits."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu import dtypes


def constant(value: Any) -> Any:
    """Return a tensor as a JAX array, and any other value unchanged."""
    return jnp.asarray(host_array(value)) if isinstance(value, torch.Tensor) else value


def host_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy of a tensor's current values as a NumPy array."""
    own = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu").copy_(tensor.detach())
    flat = own.reshape(-1).view(torch.uint8).numpy() if own.numel() else np.empty(0, np.uint8)
    return flat.view(dtypes.to_jax(tensor.dtype)).reshape(own.shape)


def tensor_of(array: Any) -> torch.Tensor:
    """Return a new contiguous host tensor with an array's values."""
    dtype = dtypes.to_torch(array.dtype)
    if not array.size:
        return torch.empty(array.shape, dtype=dtype, device="cpu")
    return (
        torch.from_numpy(np.array(array).reshape(-1).view(np.uint8)).view(dtype).view(array.shape)
    )
