# SPDX-License-Identifier: Apache-2.0
"""Test cases that combine several kinds of parallelism, each on its own mesh dimension."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from tests.distributed import problems, tensor_parallel
from tests.distributed.rank import Rank, equal
from tests.distributed.registry import case


def _shard(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    for layer in model:
        if isinstance(layer, problems.Block):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _losses(
    rank: Rank, model: nn.Module, data: DeviceMesh, optimizer: torch.optim.Optimizer
) -> list[float]:
    """Train with data parallelism over the mesh `data`, and return the losses."""
    index, count = data.get_local_rank(), data.size()

    def share(batch: torch.Tensor) -> torch.Tensor:
        return batch.chunk(count)[index].to(rank.device)

    return problems.language().train(model, optimizer, rank, share)


@case(ranks=4)
def mesh_fsdp_tp(rank: Rank) -> float:
    mesh = rank.mesh(2, 2, names=("data", "model"))
    model = problems.language().model().to(rank.device)
    model = _shard(tensor_parallel.parallelize(model, mesh["model"]), mesh["data"])
    # foreach operators cannot update parameters that are on different meshes.
    optimizer = torch.optim.AdamW(model.parameters(), lr=problems.RATE, foreach=False)
    return equal(_losses(rank, model, mesh["data"], optimizer), problems.language().alone())


@case(ranks=4)
def mesh_ddp_tp(rank: Rank) -> float:
    """Combine DDP and TP: DDP reduces the gradients of the local part of each DTensor."""
    from torch.distributed.tensor.parallel.ddp import _pre_dp_module_transform

    mesh = rank.mesh(2, 2, names=("data", "model"))
    model = problems.language().model().to(rank.device)
    tensor_parallel.parallelize(model, mesh["model"])
    _pre_dp_module_transform(model)
    replica = DistributedDataParallel(model, process_group=mesh.get_group("data"))
    optimizer = torch.optim.AdamW(replica.parameters(), lr=problems.RATE, foreach=False)
    return equal(_losses(rank, replica, mesh["data"], optimizer), problems.language().alone())


@case(ranks=8, modes=("fused",))
def mesh_pipeline_fsdp_tp(rank: Rank) -> float:
    """Combine pipeline parallelism, FSDP and TP in two stages, each on a 2 x 2 mesh."""
    mesh = rank.mesh(2, 2, 2, names=("stage", "data", "model"))
    problem = problems.language()
    model = problem.model()
    assert isinstance(model, nn.Sequential)
    stage = mesh["stage"].get_local_rank()
    layers = model[2 * stage : 2 * stage + 2].to(rank.device)
    layers = _shard(tensor_parallel.parallelize(layers, mesh["model"]), mesh["data"])
    group = mesh.get_group("stage")
    schedule = Schedule1F1B(
        PipelineStage(layers, stage, 2, torch.device(rank.device), group=group),
        2,
        loss_fn=problem.loss,
    )
    optimizer = torch.optim.AdamW(layers.parameters(), lr=problems.RATE, foreach=False)
    index = mesh["data"].get_local_rank()
    results = []
    for inputs, targets in problem.batches():
        losses: list[torch.Tensor] = []
        if stage == 0:
            schedule.step(inputs.chunk(2)[index].to(rank.device))
        else:
            schedule.step(target=targets.chunk(2)[index].to(rank.device), losses=losses)
        optimizer.step()
        optimizer.zero_grad()
        # Only the last stage's ranks, which are half of all ranks, have a loss.
        mean = torch.stack(losses).mean() if losses else torch.zeros((), device=rank.device)
        results.append(2 * rank.mean(mean))
    return equal(results, problem.alone())


@case(ranks=4)
def mesh_subgroups(rank: Rank) -> float:
    """Run concurrent collectives in overlapping groups: the rows, the columns, and all ranks."""
    mesh = rank.mesh(2, 2, names=("row", "column"))
    flat = mesh._flatten("all")
    value = torch.full((3,), float(rank.index), device=rank.device)
    sums = []
    works = []
    for group in (mesh.get_group("row"), mesh.get_group("column"), flat.get_group()):
        sums.append(value.clone())
        works.append(dist.all_reduce(sums[-1], group=group, async_op=True))
    for work in reversed(works):
        work.wait()
    row, column = mesh.get_coordinate() or (0, 0)
    expected = [float(2 * column + 2), float(4 * row + 1), 6.0]
    assert DTensor
    return equal([s[0].item() for s in sums], expected)
