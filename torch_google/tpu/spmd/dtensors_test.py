# SPDX-License-Identifier: Apache-2.0
"""Tests that DTensor and mark_sharding describe the same shardings."""

from __future__ import annotations

import pytest

from tools.par.testing.budget import is_full
from torch_google.tpu.spmd import devices_testing

_PARTS = """
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
rank = int(sys.argv[2])
dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
device_mesh = dist.device_mesh.DeviceMesh("tpu", torch.arange(4).view(2, 2))
x = torch.arange(32.0).view(8, 4)
for spec, placements in (
    (("data", "model"), (Shard(0), Shard(1))),
    (("model", None), (Replicate(), Shard(0))),
    ((("data", "model"), None), (Shard(0), Shard(0))),
    ((None, None), (Replicate(), Replicate())),
):
    t = marked(x.to("tpu"), mesh, *spec)
    assert spmd.placements_of(t) == placements
    converted = spmd.to_dtensor(t, device_mesh)
    assert converted.placements == placements and converted.shape == x.shape
    part = spmd.sharding_of(t).local_shards[rank].data
    assert converted.to_local().cpu().equal(part)
reversed_order = marked(x.to("tpu"), mesh, ("model", "data"), None)
print(json.dumps([
    message(lambda: spmd.placements_of(reversed_order)),
    message(lambda: spmd.placements_of(x.to("tpu"))),
]))
"""


@pytest.mark.full
@pytest.mark.parametrize("rank", ["3", *["0"] * is_full()])
def test_parts(rank: str) -> None:
    reversed_order, unsharded = devices_testing.run(_PARTS, "strict", rank)
    assert "split over ('model', 'data'), but DTensor splits it in the order" in reversed_order
    assert "the tensor is not sharded" in unsharded


_WHOLE = """
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Shard
dist.init_process_group("tpu", store=dist.HashStore(), rank=0, world_size=1)
x = torch.arange(32.0).view(8, 4)
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
tpu_mesh = dist.device_mesh.DeviceMesh("tpu", [[0]])
distributed = DTensor.from_local(x.to("tpu"), tpu_mesh, [Shard(0), Shard(1)], run_check=False)
t = spmd.from_dtensor(distributed, mesh)
assert spec_of(t) == ("data", "model") and t.cpu().equal(x)
partial = DTensor.from_local(x.to("tpu"), tpu_mesh, [Partial(), Shard(1)], run_check=False)
print(json.dumps([
    message(lambda: spmd.from_dtensor(partial, mesh)),
    message(lambda: spmd.from_dtensor(distributed, spmd.get_1d_mesh())),
]))
dist.destroy_process_group()
"""


def test_whole() -> None:
    pending, axes = devices_testing.run(_WHOLE)
    assert "is a sum that is still pending" in pending
    assert "2 placements for a mesh with the axes 0" in axes
