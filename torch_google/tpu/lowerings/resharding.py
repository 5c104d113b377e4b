# SPDX-License-Identifier: Apache-2.0
"""Defines `torch_google::shard`, which returns the same values with a different sharding.

The operator occurs in torch.compile graphs and in operations on sharded tensors. The spmd package
decides when to use it.
"""

from __future__ import annotations

import jax
import torch

from torch_google.tpu import shardings
from torch_google.tpu.lowerings.table import lowering

_OURS = torch.library.Library("torch_google", "FRAGMENT")
# `sharding` is the string that shardings.text_of returns for an array of the tensor's shape.
_OURS.define("shard(Tensor self, str sharding) -> Tensor")
_OURS.define("shard_(Tensor(a!) self, str sharding) -> Tensor(a!)")


@lowering("torch_google::shard")
def shard(self: jax.Array, sharding: str) -> jax.Array:
    """Return a tensor with the same values and the given sharding."""
    number = shardings.parse(sharding)
    return jax.lax.with_sharding_constraint(self, shardings.sharding_of(number))


_OURS.impl("shard", lambda self, sharding: torch.empty_like(self), "Meta")
_OURS.impl("shard_", lambda self, sharding: self, "Meta")
