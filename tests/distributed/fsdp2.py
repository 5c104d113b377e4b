# SPDX-License-Identifier: Apache-2.0
"""Test cases for fully_shard (FSDP2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.checkpoint import checkpoint

from tests.distributed import problems
from tests.distributed.rank import Rank, equal, same
from tests.distributed.registry import case


def sharded(rank: Rank, model: nn.Module | None = None, **options: Any) -> nn.Module:
    """Shard a model, by default the language model, with one parameter group per block."""
    model = model or problems.language().model().to(rank.device)
    options.setdefault("mesh", rank.mesh())
    for layer in model:
        if isinstance(layer, problems.Block):
            fully_shard(layer, **options)
    return fully_shard(model, **options)


def _trains(rank: Rank, **options: Any) -> float:
    problem = problems.language()
    model = sharded(rank, **options)
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp2_reshard_after_forward(rank: Rank) -> float:
    return _trains(rank, reshard_after_forward=True)


@case()
def fsdp2_keep_after_forward(rank: Rank) -> float:
    return _trains(rank, reshard_after_forward=False)


@case(ranks=4)
def fsdp2_reshard_to_two(rank: Rank) -> float:
    return _trains(rank, reshard_after_forward=2)


@case(ranks=4)
def fsdp2_gpt_4(rank: Rank) -> float:
    return _trains(rank)


@case(ranks=4)
def fsdp2_hybrid(rank: Rank) -> float:
    return _trains(rank, mesh=rank.mesh(2, 2, names=("replicate", "shard")))


@case()
def fsdp2_cpu_offload(rank: Rank) -> float:
    problem = problems.language()
    model = sharded(rank, problem.model(), offload_policy=CPUOffloadPolicy())
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp2_mixed_precision(rank: Rank) -> float:
    """Compute in bfloat16, and reduce in float32.

    The losses equal the CPU's within bfloat16 precision.
    """

    def losses(rank: Rank) -> list[float]:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model = sharded(rank, mp_policy=policy)
        return problems.language().train(model, problems.sgd(model.parameters()), rank)

    return rank.equals_cpu(losses, tolerance=0.05)


@case()
def fsdp2_meta_init(rank: Rank) -> float:
    """Shard a model on the meta device, then load its parameters from a full state dict."""
    problem = problems.language()
    with torch.device("meta"):
        model = problem.new_model()
    sharded(rank, model)
    model.to_empty(device=rank.device)
    set_model_state_dict(
        model,
        problem.model().state_dict(),
        options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True),
    )
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp2_accumulation_and_clipping(rank: Rank) -> float:
    problem = problems.language()

    def train(model: nn.Module, rank: Rank | None) -> list[float]:
        optimizer = problems.adam(model.parameters())
        results = []
        for step, (inputs, targets) in enumerate(problem.batches()):
            if isinstance(model, FSDPModule) and rank is not None:
                model.set_requires_gradient_sync(step % 2 == 1)
                inputs, targets = rank.part(inputs), rank.part(targets)
            loss = problem.loss(model(inputs), targets)
            loss.backward()
            results.append(loss.item() if rank is None else rank.mean(loss))
            if step % 2:
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                if isinstance(norm, DTensor):
                    norm = norm.full_tensor()
                results.append(norm.item())
                optimizer.step()
                optimizer.zero_grad()
        return results

    return equal(train(sharded(rank), rank), train(problem.model(), None), tolerance=2e-6)


class _Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = problems.gpt()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](tokens)
        for block in self.layers[1:3]:
            x = checkpoint(block, x, use_reentrant=False)
        result: torch.Tensor = self.layers[3](x)
        return result


@case()
def fsdp2_activation_checkpointing(rank: Rank) -> float:
    problem = problems.language()
    torch.manual_seed(0)
    model = _Checkpointed().to(rank.device)
    for block in model.layers[1:3]:
        fully_shard(block, mesh=rank.mesh())
    fully_shard(model, mesh=rank.mesh())
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp2_explicit_prefetch(rank: Rank) -> float:
    """Prefetch each block's parameters while the other block computes."""
    problem = problems.language()
    model = sharded(rank)
    blocks = [layer for layer in model if isinstance(layer, problems.Block)]
    blocks[0].set_modules_to_forward_prefetch([blocks[1]])
    blocks[1].set_modules_to_backward_prefetch([blocks[0]])
    model._set_unshard_async_op(True)
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp2_uneven_shards(rank: Rank) -> float:
    """Shard parameters whose first dimension is not divisible by the number of ranks."""

    class Uneven(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 7), nn.GELU(), nn.Linear(7, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.layers(x)
            return result

    data = problems.mlp()
    problem = problems.Problem(Uneven, data.inputs, data.targets)
    model = fully_shard(problem.model().to(rank.device), mesh=rank.mesh())
    losses = problem.train(model, problems.adam(model.parameters()), rank)
    return equal(losses, problem.alone())


@case()
def fsdp2_state_dicts(rank: Rank) -> float:
    problem = problems.language()
    alone = problem.model()
    alone_optimizer = problems.adam(alone.parameters())
    problem.train(alone, alone_optimizer)
    model = sharded(rank)
    optimizer = problems.adam(model.parameters())
    problem.train(model, optimizer, rank)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    full = get_model_state_dict(model, options=options)
    state = get_optimizer_state_dict(model, optimizer, options=options)
    difference = 0.0
    if rank.index == 0:
        difference = max(
            same(full[name], value, tolerance=1e-5) for name, value in alone.state_dict().items()
        )
    broadcast = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, full, options=broadcast)
    set_optimizer_state_dict(model, optimizer, state, options=broadcast)
    for name, value in model.named_parameters():
        assert isinstance(value, DTensor)
        expected = alone.get_parameter(name).detach()
        again = distribute_tensor(expected.to(rank.device), value.device_mesh, value.placements)
        same(value.to_local(), again.to_local().cpu(), tolerance=1e-5)
    return difference
