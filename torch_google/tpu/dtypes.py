# SPDX-License-Identifier: Apache-2.0
"""Maps torch dtypes to equivalent JAX dtypes and back, and sets the default dtype for tracing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import jax.numpy as jnp
import numpy as np
import torch

_PAIRS: tuple[tuple[torch.dtype, object], ...] = (
    (torch.bool, jnp.bool_),
    (torch.uint8, jnp.uint8),
    (torch.int8, jnp.int8),
    (torch.int16, jnp.int16),
    (torch.int32, jnp.int32),
    (torch.int64, jnp.int64),
    (torch.uint16, jnp.uint16),
    (torch.uint32, jnp.uint32),
    (torch.uint64, jnp.uint64),
    (torch.bfloat16, jnp.bfloat16),
    (torch.float16, jnp.float16),
    (torch.float32, jnp.float32),
    (torch.float64, jnp.float64),
    (torch.complex64, jnp.complex64),
    (torch.complex128, jnp.complex128),
    (torch.float8_e4m3fn, jnp.float8_e4m3fn),
    (torch.float8_e5m2, jnp.float8_e5m2),
    (torch.float8_e4m3fnuz, jnp.float8_e4m3fnuz),
    (torch.float8_e5m2fnuz, jnp.float8_e5m2fnuz),
)
_TO_JAX = {torch_dtype: np.dtype(jax_dtype) for torch_dtype, jax_dtype in _PAIRS}
_TO_TORCH = {jax_dtype: torch_dtype for torch_dtype, jax_dtype in _TO_JAX.items()}

# The dtypes that each platform lacks, mapped to the dtype that the error message suggests. float64
# is not listed, because a TPU emulates it, slowly, with pairs of float32 values.
_MISSING: dict[str, dict[torch.dtype, torch.dtype]] = {
    "tpu": {torch.complex128: torch.complex64},
}


def to_jax(dtype: torch.dtype) -> np.dtype:
    """Return JAX's dtype for a torch dtype. Raises TypeError if JAX lacks the dtype."""
    try:
        return _TO_JAX[dtype]
    except KeyError:
        raise TypeError(
            f"tpu: JAX has no dtype for {dtype}. Use one of: "
            + ", ".join(str(known).removeprefix("torch.") for known in _TO_JAX)
        ) from None


def check(dtype: torch.dtype, platform: str) -> None:
    """Raise RuntimeError if a platform (tpu, gpu or cpu) lacks a dtype."""
    instead = _MISSING.get(platform, {}).get(dtype)
    if instead is not None:
        # This is not a TypeError, because Python would then try y.__radd__ for x + y.
        raise RuntimeError(
            f"tpu: the platform {platform} has no {dtype}. Make it {instead}, or keep such tensors "
            "on the CPU"
        )


def to_torch(dtype: object) -> torch.dtype:
    """Return torch's dtype for a JAX or NumPy dtype. Raises TypeError if torch lacks it."""
    try:
        return _TO_TORCH[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"tpu: torch has no dtype for {dtype}") from None


def default_dtype() -> torch.dtype:
    """Return the default dtype for floating-point numbers and tensors.

    This is torch's default dtype, unless `defaulting_to` has set a different one for this thread.
    """
    asked = _ASKED.get()
    return torch.get_default_dtype() if asked is None else asked


@contextmanager
def defaulting_to(dtype: torch.dtype) -> Iterator[None]:
    """Use `dtype` as the default dtype for programs that this thread traces in the block."""
    token = _ASKED.set(dtype)
    try:
        yield
    finally:
        _ASKED.reset(token)


def check_default(name: str) -> None:
    """Raise RuntimeError if torch's default dtype is not the one that `defaulting_to` set."""
    asked, current = default_dtype(), torch.get_default_dtype()
    if asked != current:
        raise RuntimeError(
            f"tpu: {name} was called while torch's default dtype was {asked}, and its program cannot "
            f"be traced now that it is {current}. Restore it with torch.set_default_dtype({asked})"
        )


_ASKED: ContextVar[torch.dtype | None] = ContextVar("ASKED", default=None)
