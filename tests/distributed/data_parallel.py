# SPDX-License-Identifier: Apache-2.0
"""Test cases for DistributedDataParallel."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from tests.distributed import problems
from tests.distributed.problems import Problem
from tests.distributed.rank import Rank, equal
from tests.distributed.registry import case

# A bucket size for DDP, in megabytes, that is so small that each layer has its own bucket and
# several all_reduces overlap.
SMALL_BUCKETS = 0.001


def _trains(rank: Rank, problem: Problem, **options: Any) -> float:
    model = DistributedDataParallel(problem.model().to(rank.device), **options)
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def ddp_mlp(rank: Rank) -> float:
    return _trains(rank, problems.mlp())


@case()
def ddp_gpt(rank: Rank) -> float:
    return _trains(rank, problems.language())


@case(ranks=4)
def ddp_gpt_4(rank: Rank) -> float:
    return _trains(rank, problems.language(), bucket_cap_mb=SMALL_BUCKETS)


@case()
def ddp_static_graph(rank: Rank) -> float:
    return _trains(rank, problems.language(), static_graph=True, bucket_cap_mb=SMALL_BUCKETS)


@case()
def ddp_gradient_as_bucket_view(rank: Rank) -> float:
    return _trains(rank, problems.mlp(), gradient_as_bucket_view=True, bucket_cap_mb=SMALL_BUCKETS)


@case()
def ddp_device_ids(rank: Rank) -> float:
    return _trains(rank, problems.mlp(), device_ids=[0] if rank.device == "tpu" else None)


@case()
def ddp_no_sync(rank: Rank) -> float:
    """Accumulate the gradients of two steps, and reduce them only in the second one."""
    problem = problems.mlp()

    def train(model: nn.Module, rank: Rank | None) -> list[float]:
        optimizer = problems.adam(model.parameters())
        losses = []
        for step, (inputs, targets) in enumerate(problem.batches()):
            if rank is None:
                loss = problem.loss(model(inputs), targets)
                loss.backward()
                losses.append(loss.item())
            elif step % 2 == 0:
                with model.no_sync():
                    loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
                    loss.backward()
                losses.append(rank.mean(loss))
            else:
                loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
                loss.backward()
                losses.append(rank.mean(loss))
            if step % 2:
                optimizer.step()
                optimizer.zero_grad()
        return losses

    model = DistributedDataParallel(problem.model().to(rank.device))
    return equal(train(model, rank), train(problem.model(), None))


class _Branches(nn.Module):
    """A module that alternates between two layers, so that each call leaves one unused."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.layers = nn.ModuleList([nn.Linear(16, 4), nn.Linear(16, 4)])
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        result: torch.Tensor = self.layers[self.calls % 2](functional.gelu(self.first(x)))
        return result


@case()
def ddp_find_unused_parameters(rank: Rank) -> float:
    data = problems.mlp()
    problem = Problem(_Branches, data.inputs, data.targets)
    return _trains(rank, problem, find_unused_parameters=True)


class _Normalized(nn.Module):
    def __init__(self, norm: type[nn.Module] = nn.BatchNorm1d) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            # Omit the bias, because the normalization would cancel it.
            nn.Linear(8, 16, bias=False),
            norm(16),
            nn.GELU(),
            nn.Linear(16, 4),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


def _normalized() -> Problem:
    data = problems.mlp()
    return Problem(_Normalized, data.inputs, data.targets)


@case()
def ddp_buffers(rank: Rank) -> float:
    """Normalize each rank's own batch; DDP broadcasts rank 0's running statistics to all ranks."""

    def train(rank: Rank) -> list[float]:
        problem = _normalized()
        model = DistributedDataParallel(problem.model().to(rank.device))
        losses = problem.train(model, problems.adam(model.parameters()), rank)
        model.eval()
        with torch.no_grad():
            model(rank.part(problem.inputs[0]))
        return losses + [b.float().sum().item() for b in model.buffers()]

    return rank.equals_cpu(train)


@case()
def ddp_sync_batch_norm(rank: Rank) -> float:
    """Normalize over the whole batch with SyncBatchNorm, which torch rejects on the CPU."""
    problem = _normalized()
    model = nn.SyncBatchNorm.convert_sync_batchnorm(problem.model()).to(rank.device)
    model = DistributedDataParallel(model)
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def ddp_join_uneven_inputs(rank: Rank) -> float:
    """Train r fewer steps on rank r, which then joins the collectives of the other ranks."""

    def train(rank: Rank) -> list[float]:
        problem = problems.mlp()
        model = DistributedDataParallel(problem.model().to(rank.device))
        optimizer = problems.adam(model.parameters())
        losses = []
        with model.join():
            for inputs, targets in list(problem.batches())[rank.index :]:
                loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item())
        return losses

    return rank.equals_cpu(train)


@case()
def ddp_join_with_zero(rank: Rank) -> float:
    """Train on uneven inputs with a ZeroRedundancyOptimizer."""

    def train(rank: Rank) -> list[float]:
        problem = problems.mlp()
        model = DistributedDataParallel(problem.model().to(rank.device))
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=problems.RATE)
        losses = []
        with Join([model, optimizer]):
            for inputs, targets in list(problem.batches())[rank.index :]:
                optimizer.zero_grad()
                loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses

    return rank.equals_cpu(train)


@case()
def ddp_autocast(rank: Rank) -> float:
    """Train with autocast to bfloat16. The losses equal the CPU's within bfloat16 precision."""

    def train(rank: Rank) -> list[float]:
        problem = problems.mlp()
        model = DistributedDataParallel(problem.model().to(rank.device))
        optimizer = problems.sgd(model.parameters())
        losses = []
        for inputs, targets in problem.batches():
            with torch.autocast(rank.device, torch.bfloat16):
                loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(rank.mean(loss))
        return losses

    return rank.equals_cpu(train, tolerance=5e-3)
