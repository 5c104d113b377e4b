# SPDX-License-Identifier: Apache-2.0
"""How the ranks share a model and its batches. Each strategy trains the same model.

For `spmd`, XLA splits the work. For all other strategies torch does, on any device.
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

# A function of a batch's inputs and targets, which all ranks have. It computes the gradients and
# returns the mean loss of the rows.
Backward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Share:
    """A rank's part of the training: its module, and a function that computes gradients."""

    module: nn.Module
    backward: Backward

    @property
    def parameters(self) -> list[nn.Parameter]:
        return list(self.module.parameters())


def single(model: nn.Sequential, device: torch.device) -> Share:
    """Train in one process, on one device."""
    return Share(model, _on_rows(model, device, 0, 1))


def spmd(model: nn.Sequential, device: torch.device) -> Share:
    """One process. Each device has a shard of each parameter, and some rows of each batch."""
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
    """Each rank has the whole model, and some rows of each batch."""
    replica = DistributedDataParallel(model)
    rows = _on_rows(replica, device, dist.get_rank(), dist.get_world_size())
    return Share(replica, rows)


def fsdp(model: nn.Sequential, device: torch.device) -> Share:
    """Each rank has a shard of each parameter, and some rows of each batch."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    return _sharded(model, device, mesh)


def tp(model: nn.Sequential, device: torch.device) -> Share:
    """Each rank has some heads of each block, and all rows of each batch."""
    _split_blocks(model, init_device_mesh(device.type, (dist.get_world_size(),)))
    return Share(model, _on_rows(model, device, 0, 1))


def fsdp_tp(model: nn.Sequential, device: torch.device) -> Share:
    """Ranks of a pair split the heads. The pairs split each parameter, and each batch's rows."""
    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("data", "model"))
    _split_blocks(model, mesh["model"])
    return _sharded(model, device, mesh["data"])


def pipeline(model: nn.Sequential, device: torch.device) -> Share:
    """Each rank has some of the blocks. It sends results to the next rank, a few rows at once."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    # The embedding goes to the first rank, the head to the last one.
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
    """Return a function that trains on one of `count` equal parts of a batch: part `index`."""

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
