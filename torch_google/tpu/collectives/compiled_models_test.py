# SPDX-License-Identifier: Apache-2.0
"""Distributed models compiled for the device have the same losses as on the CPU with gloo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from tools.par.testing.budget import only_full
from torch_google.tpu.compile import compile_step
from torch_google.tpu.release import V2_6
from torch_google.tpu.testing.ranks import Ranks, caught

_SIZE = 2
_STEPS = 4


@pytest.fixture(scope="module", params=["host", *only_full("xla")])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    environ = {"TORCH_TPU_COLLECTIVES": request.param}
    with Ranks(_SIZE, environ=environ, compiles=True) as started:
        yield started


def _run(rank: int, case: str, *args: Any) -> Any:
    torch._dynamo.reset()
    return globals()[case](rank, *args)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def _net(device: str) -> _Net:
    torch.manual_seed(0)
    return _Net().to(device)


def _batch(seed: int, step: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step * 10 + seed)
    x, y = (torch.randn(4, 8, generator=generator).to(device) for _ in range(2))
    return x, y


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    # The foreach implementation rejects lists that mix tensors and DTensors.
    return torch.optim.AdamW(model.parameters(), 1e-2, foreach=False)


def _distance(model: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x) - y).pow(2).mean()


# ---- Models in each of torch's wrappers, compiled or not


def _ddp(device: str, compiled: bool) -> nn.Module:
    model = DistributedDataParallel(_net(device))
    return torch.compile(model, backend="tpu") if compiled else model


def _ddp_in_buckets(device: str, compiled: bool) -> nn.Module:
    # Use small buckets: torch's DDPOptimizer splits a compiled graph at bucket boundaries.
    dist._DEFAULT_FIRST_BUCKET_BYTES = 100
    model = DistributedDataParallel(_net(device), bucket_cap_mb=0.0005)
    return torch.compile(model, backend="tpu") if compiled else model


def _ddp_of_compiled(device: str, compiled: bool) -> nn.Module:
    model = _net(device)
    return DistributedDataParallel(torch.compile(model, backend="tpu") if compiled else model)


def _sharded(device: str, compiled: bool) -> nn.Module:
    model, mesh = _net(device), init_device_mesh(device, (_SIZE,))
    for layer in (model.up, model.down, model):
        fully_shard(layer, mesh=mesh)
    return torch.compile(model, backend="tpu") if compiled else model


def _sharded_blocks(device: str, compiled: bool) -> nn.Module:
    model, mesh = _net(device), init_device_mesh(device, (_SIZE,))
    for layer in (model.up, model.down):
        if compiled:
            layer.compile(backend="tpu")
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _parallel(device: str, compiled: bool) -> nn.Module:
    mesh = init_device_mesh(device, (_SIZE,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(_net(device), mesh, plan)
    compiling = {"backend": "tpu", "fullgraph": True}
    return torch.compile(model, **compiling) if compiled else model


_WRAPPERS = {
    "ddp": _ddp,
    "ddp_in_buckets": _ddp_in_buckets,
    "ddp_of_compiled": _ddp_of_compiled,
    "fully_shard": _sharded,
    "fully_shard_of_compiled": _sharded_blocks,
    "parallelize_module": _parallel,
}


def _train(rank: int, wrapper: str, device: str) -> list[float]:
    model = _WRAPPERS[wrapper](device, device == "tpu")
    optimizer = _optimizer(model)
    seed = 0 if wrapper == "parallelize_module" else rank
    losses = []
    for step in range(_STEPS):
        loss = _distance(model, *_batch(seed, step, device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


_NO_SHARDING = pytest.mark.skipif(V2_6, reason="v2.6 has fully_shard only for CUDA")


@pytest.mark.parametrize(
    "wrapper",
    [pytest.param(w, marks=[_NO_SHARDING] * w.startswith("fully_shard")) for w in _WRAPPERS],
)
def test_training(ranks: Ranks, wrapper: str) -> None:
    expected = ranks.run(_run, "_train", wrapper, "cpu")
    for want, losses in zip(expected, ranks.run(_run, "_train", wrapper, "tpu"), strict=True):
        assert losses == pytest.approx(want, abs=1e-6, rel=1e-6)


# ---- DTensor


def _redistributed(x: Any, y: Any) -> Any:
    z = (x @ y).redistribute(placements=[Replicate()])
    z = (z * 2).redistribute(placements=[Shard(0)]).redistribute(placements=[Shard(1)])
    parts = z.to_local()
    return parts, z.redistribute(placements=[Replicate()]).to_local().sum(), x.sum().full_tensor()


def _dtensors(rank: int, device: str) -> list[torch.Tensor]:
    mesh = init_device_mesh(device, (_SIZE,))
    torch.manual_seed(0)
    x, y = torch.randn(4, 8).to(device), torch.randn(8, 6).to(device)
    sharded = distribute_tensor(x, mesh, [Shard(1)]), distribute_tensor(y, mesh, [Shard(0)])
    leaves = [each.requires_grad_() for each in sharded]
    function = _redistributed
    if device == "tpu":
        function = torch.compile(function, backend="tpu", fullgraph=True)
    parts, one, other = function(*leaves)
    (one + other).backward()
    gradients = [each.grad.to_local() for each in leaves]
    return [each.detach().cpu() for each in (parts, one, other, *gradients)]


def test_dtensor(ranks: Ranks) -> None:
    expected = ranks.run(_run, "_dtensors", "cpu")
    for want, results in zip(expected, ranks.run(_run, "_dtensors", "tpu"), strict=True):
        for one, other in zip(want, results, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-6, atol=2e-6)


# ---- Training steps as one program


def _average(gradient: torch.Tensor) -> torch.Tensor:
    return functional.all_reduce(gradient, "avg", dist.group.WORLD)


def _step(rank: int) -> list[Any]:
    model = _net("tpu")
    for parameter in model.parameters():
        parameter.register_hook(_average)
    step = compile_step(lambda x, y: _distance(model, x, y), _optimizer(model), backend="tpu")
    before = torch.tpu.metrics().graphs.get("call", 0)
    losses = [step(*_batch(rank, i, "tpu")).item() for i in range(_STEPS)]
    calls = torch.tpu.metrics().graphs["call"] - before
    # With the `xla` transport, the collective splits the graph into two calls.
    return [losses, calls // 2 if os.environ["TORCH_TPU_COLLECTIVES"] == "xla" else calls]


@pytest.mark.skipif(V2_6, reason="v2.6 has no compile_step")
def test_a_step_with_gradients_averaged_in_hooks_is_one_program(ranks: Ranks) -> None:
    expected = ranks.run(_run, "_train", "ddp", "cpu")
    for want, (losses, calls) in zip(expected, ranks.run(_run, "_step"), strict=True):
        assert losses == pytest.approx(want, abs=1e-6, rel=1e-6)
        assert calls == _STEPS


def _parallel_step(rank: int) -> list[float]:
    model = _parallel("tpu", False)
    step = compile_step(lambda x, y: _distance(model, x, y), _optimizer(model), backend="tpu")
    return [step(*_batch(0, i, "tpu")).item() for i in range(_STEPS)]


@pytest.mark.skipif(V2_6, reason="v2.6 has no compile_step")
def test_a_step_of_a_parallel_model_is_one_program(ranks: Ranks) -> None:
    expected = ranks.run(_run, "_train", "parallelize_module", "cpu")
    for want, losses in zip(expected, ranks.run(_run, "_parallel_step"), strict=True):
        assert losses == pytest.approx(want, abs=1e-6, rel=1e-6)


def _refused(rank: int, wrapper: str) -> tuple[str, str]:
    model = _WRAPPERS[wrapper]("tpu", False)
    step = compile_step(lambda x, y: _distance(model, x, y), _optimizer(model), backend="tpu")
    return caught(lambda: step(*_batch(rank, 0, "tpu")))


@pytest.mark.skipif(V2_6, reason="v2.6 has no compile_step")
@pytest.mark.parametrize(
    ("wrapper", "name"), [("ddp", "DistributedDataParallel"), ("fully_shard", "fully_shard")]
)
def test_a_step_refuses_wrappers_that_communicate(ranks: Ranks, wrapper: str, name: str) -> None:
    for kind, message in ranks.run(_run, "_refused", wrapper):
        assert kind == "NotImplementedError"
        assert message.startswith(f"tpu: compile_step: {name} reduces gradients outside of graphs")
