# SPDX-License-Identifier: Apache-2.0
"""For tests: call a lowering on the same arguments as torch's own kernel for the CPU, and compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from torch_google.tpu.dtypes import to_jax, to_torch
from torch_google.tpu.lowerings.promotion import convert
from torch_google.tpu.lowerings.table import find, name_of

# The runtime has 64-bit types from the start of its platform on; so have tests.
jax.config.update("jax_enable_x64", True)


def to_array(tensor: torch.Tensor) -> jax.Array:
    """Copy a tensor of the CPU, bit by bit."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.numel() == 0:
        return jnp.zeros(tuple(tensor.shape), to_jax(tensor.dtype))
    if tensor.dtype == torch.bool:
        return jnp.asarray(tensor.numpy())
    raw = tensor.reshape(-1).view(torch.uint8).numpy()
    return jnp.asarray(raw.view(to_jax(tensor.dtype)).reshape(tuple(tensor.shape)))


def to_tensor(array: jax.Array) -> torch.Tensor:
    """Copy an array to the CPU, bit by bit."""
    host = np.ascontiguousarray(np.asarray(array)).reshape(array.shape)
    if array.size == 0:
        return torch.empty(array.shape, dtype=to_torch(array.dtype))
    flat = torch.from_numpy(host.reshape(-1).view(np.uint8).copy())
    return flat.view(to_torch(array.dtype)).reshape(array.shape)


def lowered(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Call the lowering; results are tensors of the CPU, of the dtypes that JAX came to."""
    found = find(op)
    if found is None:
        raise LookupError(f"{name_of(op)}: no lowering in the table")
    named = _map(kwargs, to_array)
    if found.random:
        named["key"] = jax.random.key(0)
    return _map(found.function(*_map(args, to_array), **named), to_tensor)


def check(
    op: torch._ops.OpOverload,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: Any,
) -> None:
    """Require the shapes and values of torch on the CPU, once each result has torch's dtype."""
    expected = op(*args, **kwargs)
    found = lowered(op, *args, **kwargs)
    if isinstance(expected, torch.Tensor):
        expected, found = (expected,), (found,)
    assert len(expected) == len(found), f"{op}: {len(found)} results, not {len(expected)}"
    for want, got in zip(expected, found, strict=True):
        cast = to_tensor(convert(to_array(got), want.dtype))
        torch.testing.assert_close(
            cast,
            want.resolve_conj().resolve_neg(),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            check_stride=False,
            msg=lambda text: f"{op}{args}{kwargs}: {text}",
        )


def _map(value: Any, function: Any) -> Any:
    if isinstance(value, torch.Tensor | jax.Array):
        return function(value)
    if isinstance(value, Sequence) and not isinstance(value, str | torch.Size):
        return tuple(_map(item, function) for item in value)
    if isinstance(value, dict):
        return {name: _map(item, function) for name, item in value.items()}
    return value
