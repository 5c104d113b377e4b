# SPDX-License-Identifier: Apache-2.0
"""Tests operators on sharded tensors: the values and the shardings of their results."""

from __future__ import annotations

import pytest

from tools.par.testing.budget import is_full
from torch_google.tpu.spmd import devices_testing

_OPERATORS = """
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
x = torch.randn(8, 16)
def sharded(spec=("data", "model"), value=x):
    return marked(value.to("tpu"), mesh, *spec)

view = spmd.mark_sharding(x.to("tpu"), mesh, ("data", None))
assert view.partition_spec == ("data", None) and view.replicas == 2
assert view.bytes_per_device == 8 * 16 * 4 // 2
assert view.sharding_spec == "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", view.sharding_spec
assert [shard.indices[0] for shard in view.local_shards] == [slice(0, 4)] * 2 + [slice(4, 8)] * 2
assert all(shard.data.equal(x[shard.indices]) for shard in view.local_shards)
assert [shard.replica_id for shard in view.local_shards] == [0, 1, 0, 1]

# Axes given by index, several axes for one dimension, and replication.
assert spec_of(sharded((1, 0))) == ("model", "data")
assert spec_of(sharded((("data", "model"), None))) == (("data", "model"), None)
assert spec_of(sharded(((), None))) == (None, None)

# Marking a tensor gives its storage the tensor's shape, even if the tensor is transposed.
flat = torch.arange(32.0, device="tpu").reshape(8, 4)
assert spec_of(marked(flat, mesh, "data", None)) == ("data", None)
assert flat.cpu().equal(torch.arange(32.0).reshape(8, 4))
turned = x.to("tpu").t()
assert spec_of(marked(turned, mesh, "data", "model")) == ("data", "model")
assert spec_of(turned.t()) == ("model", "data") and turned.cpu().equal(x.t())
again = sharded()
assert spec_of(marked(again, mesh, None, "data")) == (None, "data") and again.cpu().equal(x)

# XLA chooses the shardings of results, and tensors written in place keep theirs.
s = sharded()
assert spec_of(s + 1) == ("data", "model") and (s + 1).cpu().equal(x + 1)
assert spec_of(s.sum()) == () and abs(s.sum().item() - x.sum().item()) < 1e-5
product = sharded(("data", None)) @ torch.ones(16, 4, device="tpu")
torch.testing.assert_close(product.cpu(), x @ torch.ones(16, 4))
assert spec_of(product) == ("data", None)
assert spec_of(torch.zeros_like(s)) == ("data", "model")
s.mul_(2)
s[2:4] = 7.0
s[5].add_(1)
expected = x * 2
expected[2:4] = 7.0
expected[5].add_(1)
assert spec_of(s) == ("data", "model") and s.cpu().equal(expected)
s.copy_(x)
assert spec_of(s) == ("data", "model") and s.cpu().equal(x)
plain = torch.ones(8, 16, device="tpu")
plain.add_(s)
assert plain.cpu().equal(1 + x) and spec_of(plain) == ("data", "model")
assert torch.cat([s, plain[:1]]).cpu().equal(torch.cat([x, 1 + x[:1]]))
for step in range(12):
    s[step % 8].add_(step)
    expected = x.clone() if step == 0 else expected
    expected[step % 8].add_(step)
assert s.cpu().equal(expected)

# Random operators draw the same values as on an unsharded tensor.
for draw in (
    lambda t: nn.functional.dropout(t, 0.5),
    lambda t: torch.randn_like(t) + t,
    lambda t: t.sigmoid().bernoulli(),
    lambda t: t.clone().uniform_(),
):
    torch.manual_seed(1)
    alone = draw(x.to("tpu"))
    torch.manual_seed(1)
    assert draw(sharded()).cpu().equal(alone.cpu())
torch.manual_seed(1)
alone = torch.empty(8, 16, device="tpu").normal_()
torch.manual_seed(1)
parts = marked(torch.empty(8, 16, device="tpu"), mesh, "data", "model").normal_()
assert spec_of(parts) == ("data", "model") and parts.cpu().equal(alone.cpu())

# Reads, copies, serialization, and tensors on other devices.
s = sharded()
assert str(s) == str(x.to("tpu")) and s[1, 2].item() == x[1, 2].item()
assert s[s > 0].cpu().equal(x[x > 0]) and s.nonzero().cpu().equal(x.nonzero())
assert s.to("tpu:1").cpu().equal(x) and (s.to("tpu:1") + 1).device.index == 1
assert spec_of(copy.deepcopy(nn.Parameter(s))) == ("data", "model")
assert copy.deepcopy(s).cpu().equal(x)
data = io.BytesIO()
torch.save(s, data)
assert torch.load(io.BytesIO(data.getvalue())).cpu().equal(x)
s.data.resize_(10, 16)
assert s.cpu()[:8].equal(x) and spec_of(s) is None
second = marked(torch.ones(4, 4, device="tpu:1"), mesh, "data", None)
assert (second + 1).device.index == 1 and (second + 1).cpu().sum() == 32
c = torch.randn(8, 4, dtype=torch.complex64)
assert sharded(value=c).conj().cpu().equal(c.conj())
assert marked(torch.zeros(0, 4, device="tpu"), mesh, "data", None).add(1).shape == (0, 4)

# A hybrid mesh orders its devices by the network (ICI) within one slice.
hybrid = spmd.HybridMesh(ici_mesh_shape=(2, 2), axis_names=("data", "model"))
assert hybrid.axis_sizes == {"data": 2, "model": 2} and sorted(hybrid.device_ids) == [0, 1, 2, 3]
assert marked(x.to("tpu"), hybrid, "data", None).add(1).cpu().equal(x + 1)

# A mesh that does not include the tensor's own device, and clear_sharding.
away = marked(torch.ones(4, 4, device="tpu"), spmd.Mesh([3, 2], (2,)), "0", None)
assert (away + torch.ones(4, device="tpu")).cpu().sum() == 32
spmd.clear_sharding(away)
assert spec_of(away) is None and (away + torch.ones(4, device="tpu")).cpu().sum() == 32

# Gradients have the sharding of their tensors, and activations can be resharded.
leaf = sharded().requires_grad_()
(leaf * leaf).sum().backward()
assert spec_of(leaf.grad) == ("data", "model") and leaf.grad.cpu().equal(2 * x)
middle = spmd.mark_sharding_with_gradients(leaf * 1, mesh, ("model", None))
assert spec_of(middle) == ("model", None)
leaf.grad = None
middle.square().sum().backward()
assert leaf.grad.cpu().equal(2 * x)

# shard_batch and shard_batches shard nested batches.
spec = spmd.ShardingSpec(mesh, ("data",))
batch = spmd.shard_batch({"x": x, "n": 3, "y": [torch.arange(8)]}, spec)
assert spec_of(batch["x"]) == ("data", None) and batch["x"].cpu().equal(x)
assert batch["n"] == 3 and spec_of(batch["y"][0]) == ("data",)
assert [spec_of(b) for b in spmd.shard_batches([x, x], spec)] == [("data", None)] * 2
print(1)
"""


@pytest.mark.parametrize("mode", ["fused", *["strict", "debug"] * is_full()])
def test_operators(mode: str) -> None:
    assert devices_testing.run(_OPERATORS, mode) == 1


_GRAPHS = """
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
x = torch.randn(8, 16)
compiled = torch.compile(lambda t, o: (t @ o).relu() + 1, fullgraph=True)
other = torch.randn(16, 4)
for spec in (("data", None), (None, "model"), ("data", "model")):
    y = compiled(marked(x.to("tpu"), mesh, *spec), other.to("tpu"))
    torch.testing.assert_close(y.cpu(), (x @ other).relu() + 1)
    assert spec_of(y) == (spec[0], None), spec_of(y)
y = compiled(x.to("tpu"), other.to("tpu"))
assert spec_of(y) is None and torch.tpu.metrics().graphs["compile"] == 4

def update(t, other):
    t.add_(1)
    return torch.zeros(3, device="tpu"), other * 2
t = marked(x.to("tpu"), mesh, "data", "model")
zeros, doubled = torch.compile(update, fullgraph=True)(t, x.to("tpu"))
assert spec_of(t) == ("data", "model") and t.cpu().equal(x + 1)
assert zeros.tolist() == [0, 0, 0] and doubled.cpu().equal(x * 2)

# An activation is resharded in a graph whose arguments are not sharded.
function = torch.compile(
    lambda t: spmd.mark_sharding_with_gradients(t * 2, mesh, ("data", None)) + 1, fullgraph=True
)
leaf = x.to("tpu").requires_grad_()
y = function(leaf)
assert spec_of(y) == ("data", None) and y.detach().cpu().equal(x * 2 + 1)
y.sum().backward()
assert leaf.grad.cpu().eq(2).all()

torch.manual_seed(1)
drop = torch.compile(lambda t: nn.functional.dropout(t, 0.5))
alone = drop(x.to("tpu"))
torch.manual_seed(1)
assert drop(marked(x.to("tpu"), mesh, "data", "model")).cpu().equal(alone.cpu())

# mark_sharding causes a graph break.
def marking(t):
    t = t * 2
    spmd.mark_sharding(t, mesh, ("data", None))
    return t + 1
y = torch.compile(marking)(x.to("tpu"))
assert spec_of(y) == ("data", None) and y.cpu().equal(x * 2 + 1)
torch._dynamo.reset()
assert message(lambda: torch.compile(marking, fullgraph=True)(x.to("tpu"))).startswith("Unsupported")

# A graph with dynamic shapes.
dynamic = torch.compile(lambda t: t * t.shape[0], dynamic=True)
for rows in (4, 8, 12):
    value = torch.randn(rows, 4)
    assert dynamic(marked(value.to("tpu"), mesh, "data", None)).cpu().equal(value * rows)
print(1)
"""


@pytest.mark.full
def test_graphs() -> None:
    assert devices_testing.run(_GRAPHS, "compile") == 1


_ERRORS = """
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
ones = lambda *sizes: torch.ones(*sizes, device="tpu")
a = marked(ones(8, 4), mesh, "data", None)
b = marked(ones(8, 4), spmd.Mesh([0, 1], (2,), ("y",)), "y", None)
print(json.dumps([message(each) for each in (
    lambda: spmd.mark_sharding(ones(3, 4), mesh, ("data", None)),
    lambda: spmd.mark_sharding(ones(4, 4), mesh, ("rows", None)),
    lambda: spmd.mark_sharding(ones(4, 4), mesh, (2, None)),
    lambda: spmd.mark_sharding(ones(4, 4), mesh, ("data", "data")),
    lambda: spmd.mark_sharding(ones(4, 4), mesh, ("data",)),
    lambda: spmd.mark_sharding(ones(4, 4)[2:], mesh, ("data", None)),
    lambda: spmd.mark_sharding(torch.ones(4, 4), mesh, ("data", None)),
    lambda: spmd.Mesh([0, 1, 2, 7], (4,)),
    lambda: spmd.Mesh([0, 1, 1, 2], (4,)),
    lambda: spmd.Mesh(range(4), (3,)),
    lambda: spmd.Mesh(range(4), (2, 2), ("a", "a")),
    lambda: spmd.HybridMesh(ici_mesh_shape=(2, 2), dcn_mesh_shape=(2, 1)),
    lambda: spmd.HybridMesh(ici_mesh_shape=(3, 2)),
    lambda: spmd.HybridMesh(ici_mesh_shape=(4,), dcn_mesh_shape=(1, 1)),
    lambda: spmd.XLAShardedTensor(a.view(32)).partition_spec,
    lambda: a + b,
    lambda: torch.compile(lambda s, t: s + t)(a, b),
)]))
"""


def test_errors() -> None:
    errors = devices_testing.run(_ERRORS)
    for error, part in zip(
        errors,
        [
            "ValueError: spmd: dimension 0 of [3, 4] has size 3, which is not divisible by the 2",
            "ValueError: spmd: no mesh axis 'rows' in ('rows', None). The mesh has the axes data, ",
            "ValueError: spmd: no mesh axis 2 in (2, None)",
            "ValueError: spmd: the mesh axis 'data' occurs twice in ('data', 'data')",
            "ValueError: spmd: the partition_spec ('data',) has 1 entries, but",
            "a view of a part of its storage (64 bytes, torch.float32)",
            "ValueError: spmd: expected a tensor of tpu, found one of cpu",
            "ValueError: spmd.Mesh: no device tpu:7; this process has 4 (0 to 3)",
            "ValueError: spmd.Mesh: a device occurs twice in [0, 1, 1, 2]",
            "ValueError: spmd.Mesh: the shape (3,) needs 3 devices, got 4 ids",
            "ValueError: spmd.Mesh: 2 axes cannot be named ('a', 'a')",
            "dcn_mesh_shape (2, 1): Number of slices 1 must equal the product of dcn_mesh_shape",
            "ValueError: spmd.HybridMesh: 4 devices do not fit ici_mesh_shape (3, 2) and dcn_mesh_",
            "dcn_mesh_shape (1, 1): 1 and 2 axes; give both shapes the same number",
            "is a view of a sharded storage of shape [8, 4]",
            "tpu: sharded tensors on different devices: [0, 1, 2, 3] and [0, 1]",
            "tpu: sharded tensors on different devices: [0, 1, 2, 3] and [0, 1]",
        ],
        strict=True,
    ):
        assert part in error
        assert "\n" not in error
