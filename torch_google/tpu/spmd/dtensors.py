# SPDX-License-Identifier: Apache-2.0
"""Converts between sharded tensors and torch's DTensors, which can describe the same sharding.

A sharded tensor has all its shards in one process, whereas a DTensor has one shard per process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torch_google.tpu import _C
from torch_google.tpu.spmd.marking import mark_sharding
from torch_google.tpu.spmd.mesh import Mesh
from torch_google.tpu.spmd.sharded_tensor import XLAShardedTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Placement


def placements_of(t: torch.Tensor) -> tuple[Placement, ...]:
    """Return the placements of a sharded tensor: Shard or Replicate for each axis of its mesh.

    Raises ValueError if the tensor is not sharded, or if a dimension is split over axes in an order
    other than the mesh's, which a DTensor cannot describe.
    """
    from torch.distributed.tensor import Replicate, Shard

    view = XLAShardedTensor(t)
    if view.mesh is None:
        raise ValueError("spmd: the tensor is not sharded. Mark it with spmd.mark_sharding")
    names = view.mesh.axis_names
    placements: list[Placement] = [Replicate()] * len(names)
    for dimension, part in enumerate(view.partition_spec):
        axes = [] if part is None else [part] if isinstance(part, str) else [*part]
        indices = [names.index(axis) for axis in axes]
        if indices != sorted(indices):
            raise ValueError(
                f"spmd: dimension {dimension} is split over {tuple(axes)}, but DTensor splits it in "
                f"the order of the mesh, {names}. Mark it in that order"
            )
        for index in indices:
            placements[index] = Shard(dimension)
    return tuple(placements)


def to_dtensor(t: torch.Tensor, device_mesh: DeviceMesh) -> DTensor:
    """Return a DTensor with the values and placements of a sharded tensor.

    The local tensor is the shard at this rank's position in `device_mesh`, which must have the
    shape of the tensor's mesh. Each rank must pass the whole tensor, with the same values. Raises
    ValueError in the same cases as `placements_of`.
    """
    from torch.distributed.tensor import DTensor

    placements = placements_of(t)
    mesh = XLAShardedTensor(t).mesh
    assert mesh is not None
    if tuple(device_mesh.shape) != mesh.devices.shape:
        raise ValueError(
            f"spmd.to_dtensor: a DeviceMesh of shape {tuple(device_mesh.shape)} for a tensor on a "
            f"mesh of shape {mesh.devices.shape}. Give one of equal shape"
        )
    position = device_mesh.get_coordinate()
    if position is None:
        raise ValueError("spmd.to_dtensor: this rank is not in the DeviceMesh")
    device = mesh.devices[tuple(position)]
    parts = zip(_C.value(t).addressable_shards, XLAShardedTensor(t).local_shards, strict=True)
    (local,) = (part.data for shard, part in parts if shard.device == device)
    return DTensor.from_local(
        local.to(t.device),
        device_mesh,
        placements,
        run_check=False,
        shape=t.shape,
        stride=t.stride(),
    )


def from_dtensor(t: DTensor, mesh: Mesh) -> torch.Tensor:
    """Return a tensor with the values of a DTensor, sharded in the same way over `mesh`.

    `mesh` must have as many axes as the DTensor's mesh. The values are gathered first, so all ranks
    must call this function. Raises ValueError if the DTensor has a partial placement, and in the
    same cases as `mark_sharding`.
    """
    spec = _partition_spec(t.placements, t.dim(), mesh)
    # Copy the result, because gathering may return a view of a larger buffer.
    whole = t.full_tensor().detach().contiguous().clone()
    mark_sharding(whole, mesh, spec)
    return whole


def _partition_spec(
    placements: Sequence[Placement], dimensions: int, mesh: Mesh
) -> tuple[tuple[str, ...], ...]:
    if len(placements) != len(mesh.axis_names):
        raise ValueError(
            f"spmd.from_dtensor: {len(placements)} placements for a mesh with the axes "
            f"{', '.join(mesh.axis_names)}. Give a mesh with one axis for each"
        )
    spec: list[tuple[str, ...]] = [()] * dimensions
    for name, placement in zip(mesh.axis_names, placements, strict=True):
        if placement.is_partial():
            raise ValueError(
                f"spmd.from_dtensor: the placement {placement} is a sum that is still pending. "
                "Redistribute the DTensor to Replicate() or Shard() first"
            )
        if placement.is_shard():
            dimension = placement.dim % dimensions
            spec[dimension] = (*spec[dimension], name)
    return tuple(spec)
