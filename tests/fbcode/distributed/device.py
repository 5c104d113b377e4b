# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402, PT009 - the device must be registered first; torch's own TestCase compares tensors
"""Suites that use the device in two processes. Each process imports the classes by name."""

from __future__ import annotations

from torch_google.tpu import autoload

# Register the device before importing torch's test framework, which looks for devices on import.
# Ranks import this module first, so they also register it.
autoload()

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed._tensor import common_dtensor

from tests.fbcode.distributed.processes import WORLD, Processes


class TestDevice(Processes):
    """Tests of process groups that do not specify a backend.

    Each collective uses the backend for the device of its tensor.
    """

    def test_what_lies_on_the_cpu_goes_by_gloo(self) -> None:
        self.join()
        value = torch.tensor([self.rank + 1.0])
        dist.all_reduce(value)
        self.assertEqual(value.item(), 3.0)
        pair = dist.new_group([0, 1])
        dist.broadcast(value.fill_(self.rank), src=1, group=pair)
        self.assertEqual(value.item(), 1.0)
        mesh = dist.init_device_mesh("cpu", (WORLD,))
        shards = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
        self.assertEqual(shards.sum().full_tensor().item(), 28.0)

    def test_what_lies_on_the_device_goes_by_the_backend(self) -> None:
        self.join()
        value = torch.tensor([self.rank + 1.0], device="tpu")
        dist.all_reduce(value)
        self.assertEqual(value.item(), 3.0)


class TestShards(common_dtensor.DTensorTestBase):
    """Tests that use torch's base class for DTensor, which uses the accelerator's backend."""

    world_size = WORLD

    @common_dtensor.with_comms
    def test_a_mesh_of_more_ranks_than_devices_is_of_the_cpu(self) -> None:
        self.assertEqual(common_dtensor.DEVICE_TYPE, "tpu")
        mesh = self.build_device_mesh()
        self.assertEqual(mesh.device_type, "cpu")
        shards = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
        self.assertEqual(shards.sum().full_tensor().item(), 28.0)
