# SPDX-License-Identifier: Apache-2.0
"""`torch_google::shard`: the same values with another sharding.

It is used within graphs of torch.compile, and for tensors that are sharded already. spmd defines
when.
"""

from __future__ import annotations

import jax
import torch

from torch_google.tpu import shardings
from torch_google.tpu.lowerings.table import lowering

_OURS = torch.library.Library("torch_google", "FRAGMENT")
# `sharding` is the result of shardings.text_of, for an array of the tensor's shape.
_OURS.define("shard(Tensor self, str sharding) -> Tensor")
_OURS.define("shard_(Tensor(a!) self, str sharding) -> Tensor(a!)")


@lowering("torch_google::shard")
def shard(self: jax.Array, sharding: str) -> jax.Array:
    """Return the values, distributed as the text says."""
    number = shardings.parse(sharding)
    return jax.lax.with_sharding_constraint(self, shardings.sharding_of(number))


_OURS.impl("shard", lambda self, sharding: torch.empty_like(self), "Meta")
_OURS.impl("shard_", lambda self, sharding: self, "Meta")
