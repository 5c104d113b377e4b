# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - torch's own TestCase compares tensors, even in nested structures
"""Suites whose ranks are threads of one process, started by torch's harness."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.common_distributed import MultiThreadedTestCase

WORLD = 4


class TestThreads(MultiThreadedTestCase):
    world_size = WORLD

    def setUp(self) -> None:
        super().setUp()
        self._spawn_threads()

    def test_all_reduce(self) -> None:
        value = torch.full((2,), float(self.rank))
        dist.all_reduce(value)
        self.assertEqual(value, torch.full((2,), 6.0))

    def test_broadcast(self) -> None:
        value = torch.tensor([self.rank])
        dist.broadcast(value, src=2)
        self.assertEqual(value.item(), 2)

    def test_a_tensor_in_shards_becomes_whole(self) -> None:
        mesh = dist.init_device_mesh("cpu", (WORLD,))
        # Do not use random numbers, because they would differ between threads.
        tensor = torch.arange(8.0)
        shards = distribute_tensor(tensor, mesh, [Shard(0)])
        self.assertEqual(shards.to_local().shape, (2,))
        self.assertEqual(shards.redistribute(mesh, [Replicate()]).to_local(), tensor)
