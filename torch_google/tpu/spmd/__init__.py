# SPDX-License-Identifier: Apache-2.0
"""SPMD in one process: tensors sharded over several devices. The names are from torch_xla's API.

A sharded tensor is on one tpu device, which represents all devices of the mesh. Operators on the
tensor run on all these devices, and XLA (GSPMD) inserts the communication.
"""
# ruff: noqa: E402 - JAX must be imported before the modules that use it

from torch_google.tpu.runtime.jax_import import import_jax

import_jax()

from torch_google.tpu.spmd.dtensors import from_dtensor, placements_of, to_dtensor
from torch_google.tpu.spmd.fully_sharded import FullyShardedDataParallel
from torch_google.tpu.spmd.loading import (
    ShardingSpec,
    shard_batch,
    shard_batches,
    shard_optimizer_state,
)
from torch_google.tpu.spmd.marking import (
    clear_sharding,
    is_sharded,
    mark_sharding,
    mark_sharding_with_gradients,
    shard_like,
    sharding_of,
)
from torch_google.tpu.spmd.mesh import (
    HybridMesh,
    Mesh,
    get_1d_mesh,
    get_global_mesh,
    set_global_mesh,
)
from torch_google.tpu.spmd.sharded_tensor import XLAShard, XLAShardedTensor
from torch_google.tpu.spmd.wrap_policies import (
    always_wrap_policy,
    checkpoint_module,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
)

__all__ = [
    "FullyShardedDataParallel",
    "HybridMesh",
    "Mesh",
    "ShardingSpec",
    "XLAShard",
    "XLAShardedTensor",
    "always_wrap_policy",
    "checkpoint_module",
    "clear_sharding",
    "from_dtensor",
    "get_1d_mesh",
    "get_global_mesh",
    "is_sharded",
    "mark_sharding",
    "mark_sharding_with_gradients",
    "placements_of",
    "set_global_mesh",
    "shard_batch",
    "shard_batches",
    "shard_like",
    "shard_optimizer_state",
    "sharding_of",
    "size_based_auto_wrap_policy",
    "to_dtensor",
    "transformer_auto_wrap_policy",
]
