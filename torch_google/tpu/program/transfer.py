# SPDX-License-Identifier: Apache-2.0
"""The same bits as a tensor on the host and as an array of JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu import dtypes


def constant(value: Any) -> Any:
    """Return the jax array of a tensor on the host, and anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    wanted = dtypes.to_jax(value.dtype)
    if _unknown_to_numpy(value.dtype):
        bits = value.view(_bits(value.dtype)).numpy()
        return jnp.asarray(bits.view(wanted).reshape(value.shape))
    return jnp.asarray(value.numpy())


def tensor_of(array: Any) -> torch.Tensor:
    """Return a new contiguous tensor on the host with the values of an array."""
    dtype = dtypes.to_torch(array.dtype)
    host = np.array(array)
    if _unknown_to_numpy(dtype):
        numbers = np.uint8 if dtype.itemsize == 1 else np.int16
        return torch.from_numpy(host.view(numbers)).view(dtype)
    return torch.from_numpy(host)


def _unknown_to_numpy(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16


def _bits(dtype: torch.dtype) -> torch.dtype:
    return torch.uint8 if dtype.itemsize == 1 else torch.int16
