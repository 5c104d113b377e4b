# SPDX-License-Identifier: Apache-2.0
"""Test cases for FullyShardedDataParallel."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.fsdp import (
    CPUOffload,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from tests.distributed import problems
from tests.distributed.rank import Rank, equal, same
from tests.distributed.registry import case


def _wrapped(rank: Rank, **options: Any) -> FullyShardedDataParallel:
    return FullyShardedDataParallel(
        problems.language().model(),
        auto_wrap_policy=ModuleWrapPolicy([problems.Block]),
        device_id=torch.device(rank.device),
        **options,
    )


def _trains(rank: Rank, **options: Any) -> float:
    model = _wrapped(rank, **options)
    problem = problems.language()
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp1_full_shard(rank: Rank) -> float:
    return _trains(rank)


@case()
def fsdp1_original_parameters(rank: Rank) -> float:
    return _trains(rank, use_orig_params=True)


@case()
def fsdp1_shard_grad_op(rank: Rank) -> float:
    return _trains(rank, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)


@case()
def fsdp1_no_shard(rank: Rank) -> float:
    return _trains(rank, sharding_strategy=ShardingStrategy.NO_SHARD)


@case(ranks=4)
def fsdp1_hybrid_shard(rank: Rank) -> float:
    mesh = rank.mesh(2, 2, names=("replicate", "shard"))
    return _trains(rank, sharding_strategy=ShardingStrategy.HYBRID_SHARD, device_mesh=mesh)


@case()
def fsdp1_limited_all_gathers(rank: Rank) -> float:
    return _trains(rank, limit_all_gathers=True, forward_prefetch=True)


@case()
def fsdp1_cpu_offload(rank: Rank) -> float:
    return _trains(rank, cpu_offload=CPUOffload(offload_params=True))


@case()
def fsdp1_mixed_precision(rank: Rank) -> float:
    """Compute in bfloat16, and reduce in float32.

    The losses equal the CPU's within bfloat16 precision.
    """

    def losses(rank: Rank) -> list[float]:
        model = _wrapped(
            rank,
            mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        )
        return problems.language().train(model, problems.sgd(model.parameters()), rank)

    return rank.equals_cpu(losses, tolerance=0.05)


@case()
def fsdp1_no_sync_and_clipping(rank: Rank) -> float:
    problem = problems.language()

    def train(model: torch.nn.Module, rank: Rank | None) -> list[float]:
        optimizer = problems.adam(model.parameters())
        results = []
        for step, (inputs, targets) in enumerate(problem.batches()):
            if rank is None:
                loss = problem.loss(model(inputs), targets)
                loss.backward()
                results.append(loss.item())
            else:
                context = model.no_sync if step % 2 == 0 else torch.enable_grad
                with context():
                    loss = problem.loss(model(rank.part(inputs)), rank.part(targets))
                    loss.backward()
                results.append(rank.mean(loss))
            if step % 2:
                norm = (
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                    if rank is None
                    else model.clip_grad_norm_(0.5)
                )
                results.append(float(norm))
                optimizer.step()
                optimizer.zero_grad()
        return results

    return equal(train(_wrapped(rank), rank), train(problem.model(), None), tolerance=2e-6)


@case()
def fsdp1_activation_checkpointing(rank: Rank) -> float:
    model = _wrapped(rank, use_orig_params=True)
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=functools.partial(checkpoint_wrapper),
        check_fn=lambda module: isinstance(module, problems.Block),
    )
    problem = problems.language()
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp1_state_dicts(rank: Rank) -> float:
    """Save and load full and sharded state dicts of the model and the optimizer."""
    problem = problems.language()
    model = _wrapped(rank)
    optimizer = problems.adam(model.parameters())
    alone = problem.model()
    alone_optimizer = problems.adam(alone.parameters())
    problem.train(alone, alone_optimizer)
    problem.train(model, optimizer, rank)
    with FullyShardedDataParallel.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(offload_to_cpu=True)
    ):
        full = model.state_dict()
    difference = max(
        same(full[name], value, tolerance=1e-5) for name, value in alone.state_dict().items()
    )
    state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, state)
    with FullyShardedDataParallel.state_dict_type(
        model, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig()
    ):
        model.load_state_dict(model.state_dict())
    with FullyShardedDataParallel.summon_full_params(model):
        for name, value in model.named_parameters():
            same(value, full[name.replace("_fsdp_wrapped_module.", "")])
    return difference
