# SPDX-License-Identifier: Apache-2.0
"""Widens arrays to the dtype in which torch computes (float32 for half precision).

Also converts scalars so that they do not promote the dtype of an array.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_WIDER = {jnp.dtype(jnp.float16): jnp.float32, jnp.dtype(jnp.bfloat16): jnp.float32}


def opmath(x: jax.Array) -> jax.Array:
    """Widen float16 and bfloat16 to float32; return other arrays unchanged."""
    wider = _WIDER.get(jnp.dtype(x.dtype))
    return x if wider is None else x.astype(wider)


def scalar(value: Any, like: jax.Array) -> Any:
    """Return a Python or traced scalar in a form that does not promote the dtype of `like`."""
    if isinstance(value, bool | int | float | complex):
        return value
    return jnp.asarray(value).astype(like.dtype)


def is_zero(value: Any) -> bool:
    """Return whether a scalar is known at trace time to be 0."""
    return isinstance(value, bool | int | float | complex | np.number) and value == 0
