# SPDX-License-Identifier: Apache-2.0
"""Process groups of one rank work however they are created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from torch_google.tpu.release import V2_6

_WAYS: list[dict[str, Any]] = [{}, {"backend": "tpu"}, {"backend": "cpu:gloo,tpu:tpu"}]


@pytest.fixture(params=_WAYS, ids=lambda way: way.get("backend", "none"))
def joined(request: pytest.FixtureRequest) -> Iterator[None]:
    """Create the default process group with one rank, for each supported `backend` argument."""
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1, **request.param)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("joined")
def test_tensors_on_the_cpu() -> None:
    value = torch.ones(2)
    dist.all_reduce(value)
    assert value.tolist() == [1.0, 1.0]
    gathered: list[Any] = [None]
    dist.all_gather_object(gathered, {"rank": 0})
    assert gathered == [{"rank": 0}]
    dist.barrier()
    pair = dist.new_group([0])
    dist.broadcast(value, src=0, group=pair)
    mesh = dist.init_device_mesh("cpu", (1,))
    shards = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    assert shards.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]
    model = DistributedDataParallel(nn.Linear(2, 1))
    model(torch.ones(1, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def _all_gather(value: torch.Tensor) -> None:
    dist.all_gather([torch.empty_like(value)], value)


def _functional(value: torch.Tensor) -> torch.Tensor:
    return functional.wait_tensor(functional.all_reduce(value, "sum", dist.group.WORLD))


def _distribute(value: torch.Tensor) -> DTensor:
    return distribute_tensor(value, dist.init_device_mesh("tpu", (1,)), [Shard(0)])


def _replicate(value: torch.Tensor) -> DistributedDataParallel:
    module = nn.Linear(2, 1)
    module.weight = nn.Parameter(value)
    return DistributedDataParallel(module.to("tpu"))


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    "call", [dist.all_reduce, _all_gather, _functional, _distribute, _replicate]
)
def test_tensors_on_the_device(call: Callable[[torch.Tensor], object]) -> None:
    value = torch.ones(1, 2, device="tpu")
    call(value)
    assert value.tolist() == [[1.0, 1.0]]


@pytest.mark.filterwarnings("ignore:.*all_gather_into_tensor")
@pytest.mark.usefixtures("joined")
def test_a_mixture_is_refused() -> None:
    output = torch.empty(2)
    with pytest.raises(ValueError, match=r"found tensors on tpu and on cpu. Move all of them"):
        dist.all_gather_into_tensor(output, torch.ones(2, device="tpu"))


@pytest.mark.skipif(V2_6, reason="v2.6 accepts device_id only for CUDA")
@pytest.mark.parametrize("backend", [None, "tpu", "tpu_dist"])
def test_a_group_with_a_device(backend: str | None) -> None:
    dist.init_process_group(
        backend,
        store=dist.HashStore(),
        rank=0,
        world_size=1,
        device_id=torch.device("tpu:0"),
    )
    try:
        value = torch.ones(2, device="tpu")
        dist.all_reduce(value)
        dist.barrier()
        part = dist.split_group(split_ranks=[[0]])
        dist.all_reduce(value, group=part)
        on_cpu = torch.ones(2)
        dist.all_reduce(on_cpu, group=part)
        assert value.tolist() == on_cpu.tolist() == [1.0, 1.0]
    finally:
        dist.destroy_process_group()


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("joined")
def test_a_group_is_created_without_a_warning() -> None:
    dist.barrier()


def test_options_are_refused() -> None:
    with pytest.raises(ValueError, match="tpu: init_process_group: found pg_options of object"):
        dist.init_process_group(
            "tpu", store=dist.HashStore(), rank=0, world_size=1, pg_options=object()
        )
    assert not dist.is_initialized()
