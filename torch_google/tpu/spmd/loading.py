# SPDX-License-Identifier: Apache-2.0
"""Loads batches so that each device receives only its slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, shardings
from torch_google.tpu.runtime import arrays
from torch_google.tpu.spmd import partition_spec as specs
from torch_google.tpu.spmd.marking import mark_sharding, shard_like
from torch_google.tpu.spmd.mesh import Mesh
from torch_google.tpu.spmd.partition_spec import Spec


@dataclass(frozen=True)
class ShardingSpec:
    """A mesh and a partition spec. Dimensions beyond the end of the spec are not split."""

    mesh: Mesh
    partition_spec: Spec

    def for_rank(self, dimensions: int) -> Spec:
        """Return the spec, truncated or padded with None to the given number of dimensions."""
        spec = tuple(self.partition_spec)[:dimensions]
        return (*spec, *[None] * (dimensions - len(spec)))


def shard_batch(batch: Any, sharding: ShardingSpec) -> Any:
    """Return a batch on tpu, sharded as `sharding` specifies.

    `batch` is a tensor or a nested container of tensors. Leaves that are not tensors are returned
    unchanged. A CPU tensor is sent to the devices in slices, and never in full to a single device.
    """

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.device.type != "cpu":
            mark_sharding(leaf, sharding.mesh, sharding.for_rank(leaf.dim()))
            return leaf
        dimensions = specs.named(sharding.mesh, sharding.for_rank(leaf.dim()), leaf.shape)
        number = shardings.number_of(specs.sharding(sharding.mesh, dimensions, range(leaf.dim())))
        tensor = torch.empty(leaf.shape, dtype=leaf.dtype, device="tpu")
        index = tensor.device.index
        _C.reshard(tensor, arrays.from_host(leaf, index, number), leaf.shape, number)
        return tensor

    return pytree.tree_map(one, batch)


def shard_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """Shard an optimizer's state like its parameters. Call this after `load_state_dict`.

    State whose shape or strides differ from the parameter's, such as a counter, is not changed.
    """
    for parameter, state in optimizer.state.items():
        for value in state.values() if isinstance(state, dict) else ():
            if (
                isinstance(value, torch.Tensor)
                and value.device == parameter.device
                and value.shape == parameter.shape
                and value.stride() == parameter.stride()
            ):
                shard_like(value, parameter)


def shard_batches(batches: Iterable[Any], sharding: ShardingSpec) -> Iterator[Any]:
    """Yield each batch from `batches`, sharded on tpu by `shard_batch`."""
    for batch in batches:
        yield shard_batch(batch, sharding)
