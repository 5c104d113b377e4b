# SPDX-License-Identifier: Apache-2.0
"""Run one rank of the benchmark, which alternates between the CPU and the device in each case."""

from __future__ import annotations

import dataclasses
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from benchmarks.tpu_eager.models import Gpt

_DEVICES = ("cpu", "tpu")
_WARM_UP = 10  # steps; the heap grows during the first ones


@dataclasses.dataclass(frozen=True)
class Timing:
    """The time that a case took in each round, in seconds, for each device."""

    case: str
    wall: dict[str, list[float]]
    cpu: dict[str, list[float]]

    def ratio(self, seconds: dict[str, list[float]]) -> float:
        """Return the median, over the rounds, of the device's time divided by the CPU's time."""
        return statistics.median(
            tpu / max(cpu, 1e-9) for cpu, tpu in zip(seconds["cpu"], seconds["tpu"], strict=True)
        )


def all_reduce(elements: int) -> dict[str, Callable[[], Any]]:
    """Return, for each device, a function that runs one all_reduce of float32 values."""

    def on(device: str) -> Callable[[], Any]:
        tensor = torch.ones(elements, device=device)
        return lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)

    return {device: on(device) for device in _DEVICES}


def ddp() -> dict[str, Callable[[], Any]]:
    """Return, for each device, a function that runs a DistributedDataParallel training step."""
    return {device: _step(DistributedDataParallel(_gpt(device)), device) for device in _DEVICES}


def fsdp2() -> dict[str, Callable[[], Any]]:
    """Return, for each device, a function that runs a training step with fully_shard."""

    def on(device: str) -> Callable[[], Any]:
        mesh = dist.init_device_mesh(device, (dist.get_world_size(),))
        model = _gpt(device)
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return _step(fully_shard(model, mesh=mesh), device)

    return {device: on(device) for device in _DEVICES}


def _gpt(device: str) -> Gpt:
    torch.manual_seed(0)
    return Gpt(vocabulary=512, width=256, layers=4, heads=4, length=64).to(device)


def _step(model: torch.nn.Module, device: str) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 512, (8, 64), generator=torch.Generator().manual_seed(0)).to(device)

    def step() -> None:
        optimizer.zero_grad()
        scores = model(tokens)
        functional.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return step


def measure(case: str, steps: dict[str, Callable[[], Any]], rounds: int) -> Timing:
    """Run both devices' steps `rounds` times, alternating, after a warm-up.

    A barrier makes all ranks start each step together. The warm-up lasts until nothing compiles on
    any rank, not even in the background, because a compilation slows the other device's steps, too.
    """
    for step in steps.values():
        _settle(step)
    wall: dict[str, list[float]] = {device: [] for device in _DEVICES}
    cpu: dict[str, list[float]] = {device: [] for device in _DEVICES}
    for turn in range(rounds):
        for device in _DEVICES if turn % 2 else reversed(_DEVICES):
            torch.tpu.synchronize()
            dist.barrier()
            used, began = time.process_time(), time.perf_counter()
            steps[device]()
            torch.tpu.synchronize()
            wall[device].append(time.perf_counter() - began)
            cpu[device].append(time.process_time() - used)
    return Timing(case, wall, cpu)


def _settle(step: Callable[[], Any], *, rounds: int = 20) -> None:
    """Run a step until `_WARM_UP` runs in a row compile nothing on any rank.

    Run at most `rounds` times `_WARM_UP` steps, then warn.
    """
    for _ in range(rounds):
        before = torch.tpu.metrics().compiles
        for _ in range(_WARM_UP):
            step()
        torch.tpu.synchronize()
        torch.tpu.wait_for_compiles()
        compiles = torch.tensor(torch.tpu.metrics().compiles - before)
        dist.all_reduce(compiles)
        if compiles.item() == 0:
            return
    warnings.warn(
        f"programs still compile after {rounds} rounds, so the times include compilations",
        stacklevel=2,
    )


def state_bytes(kind: str) -> int:
    """Return the number of bytes of parameters and optimizer state on this rank."""
    model = _gpt("tpu")
    trained: torch.nn.Module = model
    if kind == "fsdp2":
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    else:
        trained = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(trained.parameters())
    tokens = torch.zeros(1, 16, dtype=torch.long, device="tpu")
    trained(tokens).float().sum().backward()
    optimizer.step()
    held = [*trained.parameters()]
    for state in optimizer.state.values():
        held += [value for value in state.values() if isinstance(value, torch.Tensor)]
    local = [getattr(tensor, "_local_tensor", tensor) for tensor in held]
    return sum(tensor.numel() * tensor.itemsize for tensor in local)
