# SPDX-License-Identifier: Apache-2.0
"""The strategies for splitting a model and its batches among the ranks. All train the same model.

With `spmd`, XLA splits the work. With the others, torch splits it, so they run on any device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from examples import distributed_models as models

# A function that takes the inputs and targets of a whole batch, which are the same on every rank.
# It computes gradients and returns the mean loss over the rows of the batch.
Backward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Share:
    """A rank's part of the training: its module, and the function that computes its gradients."""

    module: nn.Module
    backward: Backward

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self.module.parameters())


def single(model: nn.Sequential, device: torch.device) -> Share:
    """Train in one process, on one device."""
    return Share(model, _on_rows(model, device, 0, 1))


def spmd(model: nn.Sequential, device: torch.device) -> Share:
    """Train in one process, with a shard of each parameter and of each batch on every device."""
    from torch_google.tpu import spmd as tpu_spmd

    def is_block(module: nn.Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return recurse or isinstance(module, models.Block)

    mesh = tpu_spmd.get_1d_mesh("fsdp")
    sharded = tpu_spmd.FullyShardedDataParallel(model, mesh=mesh, auto_wrap_policy=is_block)
    rows = tpu_spmd.ShardingSpec(mesh, ("fsdp",))

    def backward(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        part = tpu_spmd.shard_batch((inputs, targets), rows)
        loss = models.cross_entropy(sharded(part[0]), part[1])
        loss.backward()
        return loss.detach()

    return Share(sharded, backward)


def ddp(model: nn.Sequential, device: torch.device) -> Share:
    """Give each rank a copy of the model, and some rows of each batch."""
    replica = DistributedDataParallel(model)
    rows = _on_rows(replica, device, dist.get_rank(), dist.get_world_size())
    return Share(replica, rows)


def fsdp(model: nn.Sequential, device: torch.device) -> Share:
    """Give each rank a shard of each parameter, and some rows of each batch."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    return _sharded(model, device, mesh)


def tp(model: nn.Sequential, device: torch.device) -> Share:
    """Split each block's heads and linear layers among the ranks. Each rank gets whole batches."""
    _split_blocks(model, init_device_mesh(device.type, (dist.get_world_size(),)))
    return Share(model, _on_rows(model, device, 0, 1))


def fsdp_tp(model: nn.Sequential, device: torch.device) -> Share:
    """Combine tp within pairs of ranks with fsdp across the pairs."""
    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("data", "model"))
    _split_blocks(model, mesh["model"])
    return _sharded(model, device, mesh["data"])


def pipeline(model: nn.Sequential, device: torch.device) -> Share:
    """Give each rank some of the transformer blocks. Microbatches pass from rank to rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # The first rank also has the embedding, and the last one the head.
    ends = [0, *(1 + models.BLOCKS * (i + 1) // ranks for i in range(ranks - 1)), len(model)]
    layers = model[ends[rank] : ends[rank + 1]]
    stage = PipelineStage(layers, rank, ranks, device)
    schedule = Schedule1F1B(stage, n_microbatches=ranks, loss_fn=models.cross_entropy)

    def backward(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses: list[torch.Tensor] = []
        is_last = rank == ranks - 1
        arguments = [inputs.to(device)] if rank == 0 else []
        options: dict[str, Any] = {"target": targets.to(device), "losses": losses}
        schedule.step(*arguments, **(options if is_last else {}))
        mean = torch.stack(losses).mean().detach() if is_last else torch.zeros((), device=device)
        dist.broadcast(mean, ranks - 1)
        return mean

    return Share(layers, backward)


STRATEGIES = {
    "single": single,
    "spmd": spmd,
    "ddp": ddp,
    "fsdp": fsdp,
    "tp": tp,
    "2d": fsdp_tp,
    "pipeline": pipeline,
}


def _sharded(model: nn.Sequential, device: torch.device, mesh: DeviceMesh) -> Share:
    for layer in model:
        if isinstance(layer, models.Block):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return Share(model, _on_rows(model, device, mesh.get_local_rank(), mesh.size()))


def _split_blocks(model: nn.Sequential, mesh: DeviceMesh) -> None:
    for layer in model:
        if isinstance(layer, models.Block):
            plan = {
                "query": ColwiseParallel(),
                "key": ColwiseParallel(),
                "value": ColwiseParallel(),
                "mix": RowwiseParallel(),
                "up": ColwiseParallel(),
                "down": RowwiseParallel(),
            }
            parallelize_module(layer, mesh, plan)


def _on_rows(model: nn.Module, device: torch.device, index: int, count: int) -> Backward:
    """Return a function that computes gradients on part `index` of `count` parts of a batch."""

    def backward(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        part = inputs.chunk(count)[index].to(device), targets.chunk(count)[index].to(device)
        loss = models.cross_entropy(model(part[0]), part[1])
        loss.backward()
        mean = loss.detach().clone()
        if count > 1:
            dist.all_reduce(mean)
            mean /= dist.get_world_size()
        return mean

    return backward
