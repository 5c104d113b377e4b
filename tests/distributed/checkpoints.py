# SPDX-License-Identifier: Apache-2.0
"""Test cases for torch.distributed.checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from tests.distributed import fsdp2, problems
from tests.distributed.rank import Rank, equal, same
from tests.distributed.registry import case
from torch_google import gfile

_HALF = problems.STEPS // 2


class _Half:
    """The first or second half of the language task's training steps."""

    def __init__(self, first: bool) -> None:
        whole = problems.language()
        part = slice(0, _HALF) if first else slice(_HALF, None)
        self.problem = problems.Problem(
            whole.new_model, whole.inputs[part], whole.targets[part], whole.loss
        )


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    weights, state = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": state}


def _restore(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )


def _first_half(rank: Rank) -> tuple[nn.Module, torch.optim.Optimizer, list[float]]:
    model = fsdp2.sharded(rank)
    optimizer = problems.adam(model.parameters())
    return model, optimizer, _Half(True).problem.train(model, optimizer, rank)


def _second_half(rank: Rank, path: Path, **options: Any) -> list[float]:
    """Load the checkpoint at `path` into a new model, and train the second half of the steps."""
    model = fsdp2.sharded(rank)
    optimizer = problems.adam(model.parameters())
    state = _state(model, optimizer)
    dcp.load(state, **options or {"checkpoint_id": path})
    _restore(model, optimizer, state)
    return _Half(False).problem.train(model, optimizer, rank)


@case()
def dcp_save_and_load(rank: Rank) -> float:
    model, optimizer, losses = _first_half(rank)
    dcp.save(_state(model, optimizer), checkpoint_id=rank.directory)
    losses += _second_half(rank, rank.directory)
    return equal(losses, problems.language().alone())


@case()
def dcp_async_save(rank: Rank) -> float:
    """Save a checkpoint asynchronously during training.

    The checkpoint must contain the state at the time when async_save was called.
    """
    model, optimizer, losses = _first_half(rank)
    future = dcp.async_save(_state(model, optimizer), checkpoint_id=rank.directory)
    more = _Half(False).problem.train(model, optimizer, rank)
    future.result()
    expected = problems.language().alone()
    equal(losses + more, expected)
    return equal(losses + _second_half(rank, rank.directory), expected)


@case()
def dcp_gfile(rank: Rank) -> float:
    """Save and load through torch_google.gfile, whose checkpoints are atomic."""
    model, optimizer, losses = _first_half(rank)
    path = rank.directory / "checkpoint"
    for _ in range(2):  # The second save replaces the first checkpoint.
        dcp.save(_state(model, optimizer), storage_writer=gfile.CheckpointWriter(path))
    losses += _second_half(rank, path, storage_reader=gfile.CheckpointReader(path))
    return equal(losses, problems.language().alone())


@case()
def dcp_placements(rank: Rank) -> float:
    """Save with each placement; load with each placement, and into a plain tensor."""
    value = torch.arange(30.0).view(5, 6)
    mesh = rank.mesh()
    placements = [Shard(0), Shard(1), Replicate()]
    for saved in placements:
        path = rank.directory / str(placements.index(saved))
        dcp.save({"x": distribute_tensor(value.to(rank.device), mesh, [saved])}, checkpoint_id=path)
        for loaded in placements:
            x = distribute_tensor(torch.zeros(5, 6).to(rank.device), mesh, [loaded])
            dcp.load({"x": x}, checkpoint_id=path)
            assert isinstance(x, DTensor)
            same(x.full_tensor(), value)
        plain = torch.zeros(5, 6, device=rank.device)
        dcp.load({"x": plain}, checkpoint_id=path)
        same(plain, value)
    return 0.0


@case(ranks=4, modes=("strict",))
def dcp_save_in_four(rank: Rank) -> float:
    """Train the first half of the steps, and save a checkpoint for `dcp_load_in_two`."""
    model, optimizer, losses = _first_half(rank)
    dcp.save(_state(model, optimizer), checkpoint_id=rank.directory)
    return equal(losses, problems.language().alone()[:_HALF])


@case(modes=())
def dcp_load_in_two(rank: Rank) -> float:
    """Load the checkpoint of `dcp_save_in_four`, and train the second half of the steps."""
    return equal(_second_half(rank, rank.directory), problems.language().alone()[_HALF:])


@case(modes=())
def dcp_save_forever(rank: Rank) -> float:
    """Save checkpoints until killed. All elements of a checkpoint have the same value."""
    for turn in range(1 << 30):
        value = torch.full((1 << 12,), float(turn))
        x = distribute_tensor(value.to(rank.device), rank.mesh(), [Shard(0)])
        dcp.save(
            {"x": x, "y": x}, storage_writer=gfile.CheckpointWriter(rank.directory / "checkpoint")
        )
        (rank.directory / f"saved{rank.index}").write_text(str(turn))
    return 0.0


@case(modes=())
def dcp_load_what_is_whole(rank: Rank) -> float:
    """Load the checkpoint that killed ranks left behind. It must be one complete saved state."""
    saved = int((rank.directory / "saved0").read_text())
    state = {
        name: distribute_tensor(torch.zeros(1 << 12).to(rank.device), rank.mesh(), [Shard(0)])
        for name in ("x", "y")
    }
    dcp.load(state, storage_reader=gfile.CheckpointReader(rank.directory / "checkpoint"))
    numbers = {n for x in state.values() for n in x.full_tensor().unique().tolist()}
    assert len(numbers) == 1, f"a mixture of checkpoints: {sorted(numbers)}"
    assert numbers <= {float(saved), float(saved + 1)}, f"{numbers}, but {saved} was saved"
    return 0.0


@case()
def dcp_full_state_dict(rank: Rank) -> float:
    """Gather the full weights in rank 0's CPU memory, and save them with torch.save."""
    model, _, _ = _first_half(rank)
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=options)
    if rank.index == 0:
        torch.save(weights, rank.directory / "weights.pt")
    dist.barrier()
    loaded = torch.load(rank.directory / "weights.pt", weights_only=True)
    alone = problems.language().model()
    _Half(True).problem.train(alone, problems.adam(alone.parameters()))
    return max(
        same(loaded[name], value, tolerance=1e-5) for name, value in alone.state_dict().items()
    )
