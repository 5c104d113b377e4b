# SPDX-License-Identifier: Apache-2.0
"""Test cases for DDP's communication hooks, and for optimizers that shard state across ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    ddp_zero_hook,
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from tests.distributed import problems
from tests.distributed.rank import Rank, equal
from tests.distributed.registry import case

SMALL_BUCKETS = 0.001
# The tolerance for losses if gradients are rounded to half precision, which can amplify a
# difference in the last bit.
_HALF = 2e-4


def _losses(rank: Rank, hook: Callable[..., Any], state: object = None) -> list[float]:
    problem = problems.mlp()
    model = DistributedDataParallel(problem.model().to(rank.device), bucket_cap_mb=SMALL_BUCKETS)
    model.register_comm_hook(state, hook)
    return problem.train(model, problems.sgd(model.parameters()), rank)


def _alone() -> list[float]:
    return problems.mlp().alone(problems.sgd)


@case()
def hook_allreduce(rank: Rank) -> float:
    return equal(_losses(rank, default_hooks.allreduce_hook), _alone())


@case()
def hook_of_the_user(rank: Rank) -> float:
    """Use a hook that returns a chain of two futures."""

    def hook(state: Any, bucket: Any) -> Any:
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda f: f.value()[0] / rank.size).then(lambda f: f.value() * 1)

    hook.__annotations__.clear()  # torch rejects string annotations
    return equal(_losses(rank, hook), _alone())


@case()
def hook_bf16_compress(rank: Rank) -> float:
    """Compress gradients to bfloat16. The reference uses our hook; torch's rejects CPU tensors."""
    reference = _losses(dataclasses.replace(rank, device="cpu"), _bfloat16_hook)
    return equal(_losses(rank, default_hooks.bf16_compress_hook), reference, tolerance=_HALF)


def _bfloat16_hook(state: Any, bucket: Any) -> Any:
    sent = bucket.buffer().to(torch.bfloat16).div_(dist.get_world_size())
    future = dist.all_reduce(sent, async_op=True).get_future()
    return future.then(lambda f: bucket.buffer().copy_(f.value()[0]))


_bfloat16_hook.__annotations__.clear()  # torch rejects string annotations


@case()
def hook_fp16_compress(rank: Rank) -> float:
    return rank.equals_cpu(
        lambda rank: _losses(rank, default_hooks.fp16_compress_hook), tolerance=_HALF
    )


@case()
def hook_bf16_compress_of_allreduce(rank: Rank) -> float:
    hook = default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)
    reference = _losses(dataclasses.replace(rank, device="cpu"), _bfloat16_hook)
    return equal(_losses(rank, hook), reference, tolerance=_HALF)


@case()
def hook_powersgd(rank: Rank) -> float:
    def losses(rank: Rank) -> list[float]:
        torch.manual_seed(0)
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=3, random_seed=0
        )
        return _losses(rank, powerSGD_hook.powerSGD_hook, state)

    return rank.equals_cpu(losses)


@case()
def hook_noop(rank: Rank) -> float:
    return rank.equals_cpu(lambda rank: _losses(rank, debugging_hooks.noop_hook))


@case()
def hook_post_local_sgd(rank: Rank) -> float:
    """Reduce gradients in the first three steps, then average the models every second step."""

    def losses(rank: Rank) -> list[float]:
        problem = problems.mlp()
        model = DistributedDataParallel(problem.model().to(rank.device))
        state = post_localSGD_hook.PostLocalSGDState(
            process_group=None,
            subgroup=None,
            start_localSGD_iter=3,
            post_local_gradient_allreduce=False,
        )
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        optimizer = PostLocalSGDOptimizer(
            problems.sgd(model.parameters()), PeriodicModelAverager(period=2, warmup_steps=3)
        )
        return problem.train(model, optimizer, rank)

    return rank.equals_cpu(losses)


@case()
def hook_optimizer_in_backward(rank: Rank) -> float:
    """Update each bucket's parameters as soon as its gradients have arrived."""
    problem = problems.mlp()
    model = DistributedDataParallel(problem.model().to(rank.device), bucket_cap_mb=SMALL_BUCKETS)
    model._register_fused_optim(torch.optim.SGD, lr=problems.RATE)
    losses = []
    for inputs, targets in problem.batches():
        loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
        loss.backward()
        model.zero_grad()
        losses.append(rank.mean(loss))
    return equal(losses, problem.alone(lambda p: torch.optim.SGD(p, lr=problems.RATE)))


@case()
def zero_optimizer(rank: Rank) -> float:
    problem = problems.language()
    model = DistributedDataParallel(problem.model().to(rank.device))
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, lr=problems.RATE, parameters_as_bucket_view=True
    )
    losses = problem.train(model, optimizer, rank)
    optimizer.consolidate_state_dict(to=0)
    if rank.index == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))
    return equal(losses, problem.alone())


@case()
def zero_optimizer_in_backward(rank: Rank) -> float:
    """Run a ZeroRedundancyOptimizer in DDP's communication hook, during the backward pass."""

    def losses(rank: Rank) -> list[float]:
        problem = problems.mlp()
        model = DistributedDataParallel(
            problem.model().to(rank.device), gradient_as_bucket_view=True
        )
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.SGD, lr=problems.RATE, overlap_with_ddp=True
        )
        hook = ddp_zero_hook.hook_with_zero_step(default_hooks.allreduce_hook, model, optimizer)
        model.register_comm_hook(None, hook)
        return problem.train(model, optimizer, rank)

    return rank.equals_cpu(losses)
