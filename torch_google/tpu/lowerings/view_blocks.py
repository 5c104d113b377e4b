# SPDX-License-Identifier: Apache-2.0
"""Defines `torch_google::block` and `torch_google::place`, which read and replace part of a tensor.

The offset of a torch view is a constant, so each offset would need its own program. These operators
take the offset as an input, so one program serves all blocks of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch

from torch_google.tpu.lowerings.table import lowering

_OURS = torch.library.Library("torch_google", "FRAGMENT")
# `offset` is the index of the block's first element in a contiguous `base`.
_OURS.define("block(Tensor base, int[] sizes, Scalar offset) -> Tensor")
_OURS.define("place(Tensor base, Tensor values, Scalar offset) -> Tensor")
_OURS.define("place_(Tensor(a!) base, Tensor values, Scalar offset) -> Tensor(a!)")


@lowering("torch_google::block")
def block(base: jax.Array, sizes: Sequence[int], offset: Any) -> jax.Array:
    """Return the block of `base` that starts at `offset`. `sizes` has one size per dimension."""
    return jax.lax.dynamic_slice(base, _starts(base, offset), sizes)


@lowering("torch_google::place")
def place(base: jax.Array, values: jax.Array, offset: Any) -> jax.Array:
    """Return a copy of `base` with `values` in the block that starts at `offset`."""
    return jax.lax.dynamic_update_slice(base, values, _starts(base, offset))


def _starts(base: jax.Array, offset: Any) -> list[jax.Array]:
    starts: list[jax.Array] = []
    rest = jnp.asarray(offset, jnp.int64)
    for size in reversed(base.shape):
        starts.insert(0, rest % size)
        rest = rest // size
    return starts


_OURS.impl("block", lambda base, sizes, offset: base.new_empty(sizes), "Meta")
_OURS.impl("place", lambda base, values, offset: torch.empty_like(base), "Meta")
_OURS.impl("place_", lambda base, values, offset: base, "Meta")
