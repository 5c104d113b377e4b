# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - torch's own TestCase compares tensors, even in nested structures
"""Suites that run in two processes with gloo.

torch's harness starts the processes, and they import this module.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_distributed import (
    TEST_SKIPS,
    MultiProcContinuousTest,
    MultiProcessTestCase,
    requires_gloo,
    skip_if_lt_x_gpu,
)
from torch.testing._internal.common_fsdp import MLP
from torch.testing._internal.distributed._tensor.common_dtensor import DTensorTestBase, with_comms

WORLD = 2


class TestGroup(MultiProcContinuousTest):
    """Tests of collectives and of modules that use them, which all run in the same processes."""

    world_size = WORLD

    @classmethod
    def backend_str(cls) -> str:
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        return "cpu"

    def test_all_reduce(self) -> None:
        for dtype in (torch.float32, torch.int64, torch.bfloat16):
            value = torch.full((3,), self.rank + 1, dtype=dtype)
            dist.all_reduce(value)
            self.assertEqual(value, torch.full((3,), 3, dtype=dtype))

    def test_broadcast(self) -> None:
        value = torch.arange(4) if self.rank == 1 else torch.zeros(4, dtype=torch.int64)
        dist.broadcast(value, src=1)
        self.assertEqual(value, torch.arange(4))

    def test_all_gather_of_objects(self) -> None:
        gathered: list[Any] = [None] * WORLD
        dist.all_gather_object(gathered, {"rank": self.rank})
        self.assertEqual(gathered, [{"rank": 0}, {"rank": 1}])

    def test_replicas_have_the_gradients_of_the_whole_batch(self) -> None:
        batch = torch.randn(WORLD * 4, 3)
        model = DistributedDataParallel(_network())
        model(batch.chunk(WORLD)[self.rank]).square().mean().backward()
        alone = _network()
        alone(batch).square().mean().backward()
        for actual, expected in zip(model.parameters(), alone.parameters(), strict=True):
            self.assertEqual(actual.grad, expected.grad)

    def test_a_mesh_has_a_group_for_each_dimension(self) -> None:
        mesh = dist.init_device_mesh("cpu", (1, WORLD), mesh_dim_names=("data", "model"))
        sizes = {name: mesh[name].size() for name in ("data", "model")}
        self.assertEqual(sizes, {"data": 1, "model": WORLD})
        value = torch.ones(1)
        dist.all_reduce(value, group=mesh.get_group("model"))
        self.assertEqual(value.item(), WORLD)

    def test_a_tensor_in_shards_multiplies_as_a_whole(self) -> None:
        mesh = dist.init_device_mesh("cpu", (WORLD,))
        x, y = torch.randn(4, 6), torch.randn(6, 5)
        columns = distribute_tensor(x, mesh, [Shard(1)])
        rows = distribute_tensor(y, mesh, [Shard(0)])
        self.assertEqual(columns.to_local().shape, (4, 6 // WORLD))
        product = columns @ rows
        assert isinstance(product, DTensor)
        self.assertEqual(product.redistribute(mesh, [Replicate()]).to_local(), x @ y)

    def test_a_sharded_module_trains_as_a_whole_one(self) -> None:
        torch.manual_seed(0)
        sharded, reference = MLP(4), MLP(4)
        reference.load_state_dict(sharded.state_dict())
        fully_shard(sharded, mesh=dist.init_device_mesh("cpu", (WORLD,)))
        batch = torch.randn(WORLD * 2, 4)
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (sharded, reference)]
        for _ in range(2):
            for each, optimizer, inputs in (
                (sharded, optimizers[0], batch.chunk(WORLD)[self.rank]),
                (reference, optimizers[1], batch),
            ):
                each(inputs).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        for one, other in zip(sharded.parameters(), reference.parameters(), strict=True):
            assert isinstance(one, DTensor)
            self.assertEqual(one.full_tensor(), other)


class Processes(MultiProcessTestCase):
    """A base class for suites that start new processes for each test."""

    world_size = WORLD

    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()

    def join(self, backend: str | None = None) -> None:
        """Initialize the default process group in this rank."""
        store = dist.FileStore(self.file_name, WORLD)
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=WORLD)


class TestProcesses(Processes):
    """Tests that start new processes. One of the tests is skipped in every rank."""

    @requires_gloo()
    def test_all_reduce_over_a_file(self) -> None:
        self.join("gloo")
        value = torch.tensor([self.rank + 1.0])
        dist.all_reduce(value)
        self.assertEqual(value.item(), 3.0)

    @skip_if_lt_x_gpu(2)
    def test_on_two_accelerators(self) -> None:
        raise AssertionError("ran without them")


class TestShards(DTensorTestBase):
    """Tests that use torch's base class for DTensor."""

    world_size = WORLD

    @with_comms
    def test_sum_of_shards(self) -> None:
        mesh = self.build_device_mesh()
        tensor = torch.arange(8.0)
        self.assertEqual(
            distribute_tensor(tensor, mesh, [Shard(0)]).sum().full_tensor().item(), 28.0
        )


class Failing(Processes):
    """Tests that fail or are skipped in a rank. processes_test.py checks that this is reported."""

    def one_rank_raises(self) -> None:
        if self.rank == 1:
            raise ValueError("rank one says no")

    def the_first_ends(self) -> None:
        if self.rank == 0:
            sys.exit(3)

    def all_ranks_skip(self) -> None:
        sys.exit(TEST_SKIPS["small_worldsize"].exit_code)


def _network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
