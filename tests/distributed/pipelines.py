# SPDX-License-Identifier: Apache-2.0
"""Test cases for torch.distributed.pipelining, which assigns some of the layers to each rank."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    pipeline,
)

from tests.distributed import problems
from tests.distributed.rank import Rank, equal
from tests.distributed.registry import case

_MICROBATCHES = 4


def stages_of(rank: Rank, model: nn.Sequential, indices: list[int], count: int) -> list[Any]:
    """Split the model into `count` equal stages, and return those at `indices`."""
    layers = len(model) // count
    return [
        PipelineStage(
            model[index * layers : (index + 1) * layers].to(rank.device),
            index,
            count,
            torch.device(rank.device),
        )
        for index in indices
    ]


def _trains(rank: Rank, schedule_type: Any, *, per_rank: int = 1, v_shape: bool = False) -> float:
    """Train with `per_rank` stages per rank, and compare the losses with those of one process.

    If `v_shape` is true, rank r has the stages r and count - 1 - r.
    """
    count = rank.size * per_rank
    indices = [rank.index + i * rank.size for i in range(per_rank)]
    if v_shape:
        indices = [rank.index, count - 1 - rank.index]
    problem = problems.language()
    model = problem.model()
    assert isinstance(model, nn.Sequential)
    stages = stages_of(rank, model, indices, count)
    schedule = schedule_type(
        stages if per_rank > 1 else stages[0], _MICROBATCHES, loss_fn=problem.loss
    )
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = problems.adam(parameters)
    # The rank with the last stage, which computes the loss.
    last = 0 if v_shape else rank.size - 1
    return equal(
        _losses(rank, problem, schedule, optimizer, last, sends=0 in indices), problem.alone()
    )


def _losses(
    rank: Rank,
    problem: problems.Problem,
    schedule: Any,
    optimizer: torch.optim.Optimizer,
    last: int,
    *,
    sends: bool,
) -> list[float]:
    results = []
    for inputs, targets in problem.batches():
        arguments = [inputs.to(rank.device)] if sends else []
        options: dict[str, Any] = {}
        losses: list[torch.Tensor] = []
        if rank.index == last:
            options = {"target": targets.to(rank.device), "losses": losses}
        schedule.step(*arguments, **options)
        optimizer.step()
        optimizer.zero_grad()
        mean = torch.stack(losses).mean() if losses else torch.zeros((), device=rank.device)
        mean = mean.detach()
        dist.broadcast(mean, last)
        results.append(mean.item())
    return results


@case()
def pipeline_gpipe(rank: Rank) -> float:
    return _trains(rank, ScheduleGPipe)


@case()
def pipeline_1f1b(rank: Rank) -> float:
    return _trains(rank, Schedule1F1B)


@case(ranks=4)
def pipeline_1f1b_4(rank: Rank) -> float:
    return _trains(rank, Schedule1F1B)


@case()
def pipeline_looped_bfs(rank: Rank) -> float:
    return _trains(rank, ScheduleLoopedBFS, per_rank=2)


@case()
def pipeline_interleaved_1f1b(rank: Rank) -> float:
    return _trains(rank, ScheduleInterleaved1F1B, per_rank=2)


@case()
def pipeline_interleaved_zero_bubble(rank: Rank) -> float:
    return _trains(rank, ScheduleInterleavedZeroBubble, per_rank=2)


@case()
def pipeline_zbv_zero_bubble(rank: Rank) -> float:
    return _trains(rank, ScheduleZBVZeroBubble, per_rank=2, v_shape=True)


@case()
def pipeline_dual_pipe_v(rank: Rank) -> float:
    return _trains(rank, ScheduleDualPipeV, per_rank=2, v_shape=True)


@case()
def pipeline_split_by_export(rank: Rank) -> float:
    """Split the model with torch.export instead of by index."""
    problem = problems.language()
    inputs = problem.inputs[0]
    size = inputs.shape[0] // _MICROBATCHES
    pipe = pipeline(problem.model(), (inputs[:size],), split_spec={"2": SplitPoint.BEGINNING})
    stage = pipe.build_stage(rank.index, torch.device(rank.device))
    stage.submod.to(rank.device)
    schedule = ScheduleGPipe(stage, _MICROBATCHES, loss_fn=problem.loss)
    optimizer = problems.adam(stage.submod.parameters())
    return equal(
        _losses(rank, problem, schedule, optimizer, 1, sends=rank.index == 0), problem.alone()
    )
