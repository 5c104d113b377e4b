# SPDX-License-Identifier: Apache-2.0
"""Test cases for parallelize_module: column-wise, row-wise, sequence and loss parallelism."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

from tests.distributed import problems
from tests.distributed.rank import Rank, equal
from tests.distributed.registry import case


def block_plan() -> dict[str, Any]:
    """Return the plan that splits a block's heads and hidden features across the ranks."""
    return {
        "attention.q": ColwiseParallel(),
        "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "attention.out": RowwiseParallel(),
        "up": ColwiseParallel(),
        "down": RowwiseParallel(),
    }


def sequence_plan() -> dict[str, Any]:
    """Return a plan that also shards a block's norms and residuals along the sequence dimension."""
    return {
        "norm1": SequenceParallel(),
        "attention": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        ),
        "attention.q": ColwiseParallel(),
        "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "norm2": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }


def parallelize(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    for layer in model:
        if isinstance(layer, problems.Block):
            parallelize_module(layer, mesh, block_plan())
    return model


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer for a model that has both DTensor and plain parameters.

    torch's foreach operators, the default on accelerators, do not accept both in one call.
    """
    return torch.optim.AdamW(model.parameters(), lr=problems.RATE, foreach=False)


def _train(rank: Rank, problem: problems.Problem, model: nn.Module) -> float:
    """Train the model on the whole batch in each rank; compare losses with those of one process."""
    losses = problem.train(model, adam(model), rank, lambda batch: batch.to(rank.device))
    return equal(losses, problem.alone())


@case()
def tp_mlp(rank: Rank) -> float:
    problem = problems.mlp()
    model = problem.model().to(rank.device)
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    return _train(rank, problem, parallelize_module(model, rank.mesh(), plan))


@case()
def tp_gpt(rank: Rank) -> float:
    problem = problems.language()
    return _train(rank, problem, parallelize(problem.model().to(rank.device), rank.mesh()))


@case()
def tp_embedding(rank: Rank) -> float:
    """Shard the token embedding by rows (the vocabulary), and the last layer by columns."""
    problem = problems.language()
    mesh = rank.mesh()
    model = parallelize(problem.model().to(rank.device), mesh)
    parallelize_module(
        model,
        mesh,
        {
            "0.tokens": RowwiseParallel(input_layouts=Replicate()),
            "0.positions": ColwiseParallel(output_layouts=Replicate()),
            "3.out": ColwiseParallel(output_layouts=Replicate()),
        },
    )
    return _train(rank, problem, model)


def _sequence_parallel(rank: Rank) -> nn.Module:
    model = problems.language().model().to(rank.device)
    mesh = rank.mesh()
    parallelize_module(
        model,
        mesh,
        {"0": PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(1))},
    )
    for block in model[1:3]:
        parallelize_module(block, mesh, sequence_plan())
    return model


@case()
def tp_sequence_parallel(rank: Rank) -> float:
    model = _sequence_parallel(rank)
    parallelize_module(
        model,
        rank.mesh(),
        {
            "3.norm": SequenceParallel(),
            "3.out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    return _train(rank, problems.language(), model)


@case()
def tp_loss_parallel(rank: Rank) -> float:
    """Compute the loss from logits that are sharded over the vocabulary."""
    problem = problems.language()
    model = parallelize(problem.model().to(rank.device), rank.mesh())
    plan = {"3.out": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    model = parallelize_module(model, rank.mesh(), plan)
    optimizer = adam(model)
    losses = []
    for inputs, targets in problem.batches():
        with loss_parallel():
            scores = model(inputs.to(rank.device))
            loss = functional.cross_entropy(scores.flatten(0, 1), targets.flatten().to(rank.device))
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.as_tensor(loss.full_tensor()).item())
    return equal(losses, problem.alone())
