# SPDX-License-Identifier: Apache-2.0
"""The dtype that torch computes in, which is wider than half dtypes, and scalars that do not promote."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_WIDER = {jnp.dtype(jnp.float16): jnp.float32, jnp.dtype(jnp.bfloat16): jnp.float32}


def opmath(x: jax.Array) -> jax.Array:
    """Widen float16 and bfloat16 to float32; leave the rest as it is."""
    wider = _WIDER.get(jnp.dtype(x.dtype))
    return x if wider is None else x.astype(wider)


def scalar(value: Any, like: jax.Array) -> Any:
    """A number for arithmetic with `like` that does not change its dtype, traced or not."""
    if isinstance(value, bool | int | float | complex):
        return value
    return jnp.asarray(value).astype(like.dtype)


def is_zero(value: Any) -> bool:
    """Whether a number is known to be 0 at trace time."""
    return isinstance(value, bool | int | float | complex | np.number) and value == 0
