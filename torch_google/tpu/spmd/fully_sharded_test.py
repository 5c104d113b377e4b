# SPDX-License-Identifier: Apache-2.0
"""Tests that FullyShardedDataParallel splits memory over devices and does not change the losses."""

from __future__ import annotations

import pytest

from tools.par.testing.budget import is_full
from torch_google.tpu.spmd import devices_testing

_TRAINING = """
model = nn.Sequential(
    nn.Linear(16, 64), nn.GELU(), nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64)), nn.Linear(64, 5)
)
inputs, targets = torch.randn(20, 8, 16), torch.randn(20, 8, 5)
reference = copy.deepcopy(model)

def train(model, batches, forward):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [float(loss) for loss in losses], optimizer

expected, _ = train(reference, zip(inputs, targets), reference)
mesh = spmd.get_1d_mesh("fsdp")
def wrapper(module, **options):
    return spmd.FullyShardedDataParallel(spmd.checkpoint_module(module), **options)
model = spmd.FullyShardedDataParallel(
    model,
    mesh=mesh,
    auto_wrap_policy=partial(spmd.size_based_auto_wrap_policy, min_num_params=1e3),
    auto_wrapper_callable=wrapper,
)
wrapped = sum(isinstance(m, spmd.FullyShardedDataParallel) for m in model.modules())
spec = spmd.ShardingSpec(mesh, ("fsdp",))
forward = torch.compile(model) if mode == "compile" else model
actual, optimizer = train(model, spmd.shard_batches(zip(inputs, targets), spec), forward)
data = io.BytesIO()
torch.save(optimizer.state_dict(), data)
optimizer.load_state_dict(torch.load(io.BytesIO(data.getvalue()), map_location="cpu"))
spmd.shard_optimizer_state(optimizer)
tensors = [
    t
    for p in model.parameters()
    for t in (p, p.grad, optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"])
]
total = sum(t.untyped_storage().nbytes() for t in tensors)
part = sum(spmd.XLAShardedTensor(t).bytes_per_device for t in tensors)
worst = max(abs(a - b) for a, b in zip(expected, actual, strict=True))
print(json.dumps([worst, part / total, wrapped]))
"""


@pytest.mark.parametrize("mode", ["strict", *["fused", "compile"] * is_full()])
def test_training(mode: str) -> None:
    worst, part, wrapped = devices_testing.run(_TRAINING, mode)
    assert worst <= 1e-6
    assert part <= 0.35
    assert wrapped == 3


_WRAPPING = """
blocks = lambda: nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.name = blocks(), "model"
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
policy = partial(spmd.transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
spmd.set_global_mesh(spmd.Mesh(range(4), (2, 2), ("fsdp", "model")))
model = spmd.FullyShardedDataParallel(Model(), auto_wrap_policy=policy)
assert model.name == "model"
assert all(isinstance(b, spmd.FullyShardedDataParallel) for b in model.module.blocks)
assert spec_of(model.module.blocks[0].weight) == ("fsdp", None)
assert spec_of(model(torch.ones(2, 4, device="tpu"))) == ("fsdp", None)
seen = []
own = spmd.FullyShardedDataParallel(nn.Linear(4, 4), shard_output=lambda y, mesh: seen.append(mesh))
own(torch.ones(2, 4, device="tpu"))
assert seen == [spmd.get_global_mesh()]
print(json.dumps([
    message(lambda: spmd.FullyShardedDataParallel(model)),
    message(lambda: spmd.FullyShardedDataParallel(
        nn.Linear(4, 4), mesh=spmd.Mesh(range(4), (2, 2), ("a", "b")))),
]))
"""


def test_wrapping() -> None:
    twice, axis = devices_testing.run(_WRAPPING)
    assert "is a FullyShardedDataParallel already" in twice
    assert "the mesh has the axes a, b, none of them 'fsdp'" in axis
