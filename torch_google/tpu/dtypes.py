# SPDX-License-Identifier: Apache-2.0
"""Which dtype of JAX stands for which of torch: the same bits, or none. And torch's default one."""

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
_TO_JAX = {ours: np.dtype(theirs) for ours, theirs in _PAIRS}
_TO_TORCH = {theirs: ours for ours, theirs in _TO_JAX.items()}

# What a platform has not, and what to take instead. float64 is there on a TPU: slow, as pairs of float32.
_MISSING: dict[str, dict[torch.dtype, torch.dtype]] = {
    "tpu": {torch.complex128: torch.complex64},
}


def to_jax(dtype: torch.dtype) -> np.dtype:
    """Return JAX's dtype. Raises TypeError, which names the dtype, where JAX has none."""
    try:
        return _TO_JAX[dtype]
    except KeyError:
        raise TypeError(
            f"tpu: no dtype of JAX for {dtype}. Use one of: "
            + ", ".join(str(known).removeprefix("torch.") for known in _TO_JAX)
        ) from None


def check(dtype: torch.dtype, platform: str) -> None:
    """Raise RuntimeError, which names both, for a dtype that a platform has not: tpu, gpu or cpu."""
    instead = _MISSING.get(platform, {}).get(dtype)
    if instead is not None:
        # No TypeError: x + y would take it for a reason to ask y.
        raise RuntimeError(
            f"tpu: the platform {platform} has no {dtype}. Make it {instead}, or keep such tensors "
            "on the CPU"
        )


def to_torch(dtype: object) -> torch.dtype:
    """Return torch's dtype for one of JAX or NumPy. Raises TypeError where torch has none."""
    try:
        return _TO_TORCH[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"tpu: no dtype of torch for {dtype}") from None


def default_dtype() -> torch.dtype:
    """Return the dtype of numbers with fractions, and of tensors for which nobody names one.

    It is torch's, unless a program is made later than it was asked for: see `defaulting_to`.
    """
    asked = _ASKED.get()
    return torch.get_default_dtype() if asked is None else asked


@contextmanager
def defaulting_to(dtype: torch.dtype) -> Iterator[None]:
    """Let this thread make a program as if torch's default dtype, which all threads share, was this."""
    token = _ASKED.set(dtype)
    try:
        yield
    finally:
        _ASKED.reset(token)


def check_default(what: str) -> None:
    """Raise RuntimeError where torch's own functions would not see the dtype of `defaulting_to`."""
    asked, found = default_dtype(), torch.get_default_dtype()
    if asked != found:
        raise RuntimeError(
            f"tpu: {what} was called while torch's default dtype was {asked}, and its program cannot "
            f"be made now that it is {found}. Set it back with torch.set_default_dtype({asked})"
        )


_ASKED: ContextVar[torch.dtype | None] = ContextVar("ASKED", default=None)
