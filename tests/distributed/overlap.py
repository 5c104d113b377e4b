# SPDX-License-Identifier: Apache-2.0
"""Test cases with a late rank: the other rank continues until it needs the late rank's values."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.distributed import fsdp2, problems
from tests.distributed.rank import Rank
from tests.distributed.registry import case

_LATE = 2.0
# The time limit, in seconds, for a rank to issue all its operations. On an idle machine, it takes
# milliseconds to issue them.
_SOON = 1.0


def _warm(rank: Rank, model: torch.nn.Module) -> None:
    """Compile all programs of a step, so that measured times exclude compilation."""
    for _ in range(4):
        problem = problems.language()
        inputs, targets = next(iter(problem.batches()))
        problem.loss(model(rank.part(inputs)), rank.part(targets)).backward()
        torch.tpu.wait_for_compiles()
    dist.barrier()


@case()
def late_rank_all_reduce(rank: Rank) -> float:
    """Issue collectives and other operators without waiting for the late rank.

    Only an operator that uses a collective's result waits.
    """
    x = torch.ones(4, device=rank.device)
    (torch.arange(4.0, device=rank.device) * 2 + 1).sum().item()
    dist.barrier()
    if rank.index:
        time.sleep(_LATE)
    start = time.monotonic()
    first = dist.all_reduce(x, async_op=True)
    second = dist.all_reduce(x, async_op=True)
    total = (torch.arange(4.0, device=rank.device) * 2 + 1).sum().item()
    issued = time.monotonic() - start
    assert issued < _SOON, f"issued in {issued:.2f} s"
    assert total == 16.0
    first.wait()
    second.wait()
    assert x.tolist() == [float(rank.size**2)] * 4
    return 0.0


@case()
def late_rank_ddp(rank: Rank) -> float:
    """Start the reductions of all buckets before the first reduction has finished."""
    issued: list[float] = []

    def hook(state: Any, bucket: Any) -> Any:
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        issued.append(time.monotonic())
        return future.then(lambda f: f.value()[0] / rank.size)

    hook.__annotations__.clear()  # torch rejects string annotations
    problem = problems.language()
    model = DistributedDataParallel(problem.model().to(rank.device), bucket_cap_mb=0.001)
    model.register_comm_hook(None, hook)
    _warm(rank, model)
    inputs, targets = next(iter(problem.batches()))
    if rank.index:
        time.sleep(_LATE)
    issued.clear()
    start = time.monotonic()
    problem.loss(model(rank.part(inputs)), rank.part(targets)).backward()
    if rank.index == 0:
        assert len(issued) > 4, f"{len(issued)} buckets"
        assert issued[-1] - start < _SOON, f"issued in {issued[-1] - start:.2f} s"
    return 0.0


@case()
def late_rank_fsdp2(rank: Rank) -> float:
    """Start gathering the second block's parameters before the first block's have arrived."""
    model = fsdp2.sharded(rank)
    blocks = [layer for layer in model if isinstance(layer, problems.Block)]
    model.set_modules_to_forward_prefetch(blocks)
    model._set_unshard_async_op(True)
    _warm(rank, model)
    if rank.index:
        time.sleep(_LATE)
    start = time.monotonic()
    handles = [block.unshard(async_op=True) for block in blocks]
    issued = time.monotonic() - start
    assert issued < _SOON, f"issued in {issued:.2f} s"
    for handle in handles:
        assert handle is not None
        handle.wait()
    for block in blocks:
        block.reshard()
    return 0.0
